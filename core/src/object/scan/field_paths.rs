//! Which fields of an object a scan looks up, as a tree of steps. A step is a key, or `[N]` for the N-th element of a
//! list; a key may hold dots, so a path is a list of steps and never one dotted text.

/// The longest list of a built-in kind has 9 fields, a custom resource may have 8 of its own.
const MAX_PATHS: usize = 32;
/// A scan goes down one call per step.
const MAX_STEPS: usize = 32;

/// The paths of the fields to look up.
#[derive(Clone, Debug, Default)]
pub struct FieldPaths {
    root: Node,
    count: usize,
}

/// Why paths were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldPathError {
    /// Every path costs a comparison for each key beside it.
    #[error("more than {MAX_PATHS} field paths")]
    TooManyPaths,
    /// Deeper than any schema.
    #[error("a field path of more than {MAX_STEPS} steps")]
    TooManySteps,
    /// A path without steps names the object itself.
    #[error("an empty field path")]
    Empty,
}

/// A place in the object from which paths go on or at which they end.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    /// The numbers of the paths that end here.
    pub(super) ends: Vec<usize>,
    keys: Vec<(Box<str>, Node)>,
    indexes: Vec<(usize, Node)>,
}

// === impl FieldPaths ===

impl FieldPaths {
    /// Paths such as `[["spec", "nodeName"], ["status", "podIPs", "[0]", "ip"]]`.
    pub fn new<P: AsRef<[S]>, S: AsRef<str>>(paths: &[P]) -> Result<Self, FieldPathError> {
        if paths.len() > MAX_PATHS {
            return Err(FieldPathError::TooManyPaths);
        }
        let mut root = Node::default();
        for (number, path) in paths.iter().map(AsRef::as_ref).enumerate() {
            if path.is_empty() {
                return Err(FieldPathError::Empty);
            }
            if path.len() > MAX_STEPS {
                return Err(FieldPathError::TooManySteps);
            }
            let end = path.iter().fold(&mut root, |node, step| node.step(step.as_ref()));
            end.ends.push(number);
        }
        Ok(Self { root, count: paths.len() })
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn root(&self) -> &Node {
        &self.root
    }
}

// === impl Node ===

impl Node {
    /// Where paths go on under the key.
    pub(super) fn key(&self, key: &str) -> Option<&Self> {
        self.keys.iter().find(|(name, _)| **name == *key).map(|(_, node)| node)
    }

    /// Where paths go on under the element.
    pub(super) fn index(&self, index: usize) -> Option<&Self> {
        self.indexes.iter().find(|(found, _)| *found == index).map(|(_, node)| node)
    }

    /// Whether a path goes on under some key.
    pub(super) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether a path goes on under some element.
    pub(super) fn has_indexes(&self) -> bool {
        !self.indexes.is_empty()
    }

    /// Calls for every path that ends here or below.
    pub(super) fn each_end(&self, seen: &mut impl FnMut(usize)) {
        self.ends.iter().for_each(|&number| seen(number));
        self.keys.iter().for_each(|(_, node)| node.each_end(seen));
        self.indexes.iter().for_each(|(_, node)| node.each_end(seen));
    }

    fn step(&mut self, step: &str) -> &mut Self {
        match as_index(step) {
            Some(index) => child(&mut self.indexes, index),
            None => child(&mut self.keys, step.into()),
        }
    }
}

fn as_index(step: &str) -> Option<usize> {
    step.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

fn child<K: PartialEq>(children: &mut Vec<(K, Node)>, key: K) -> &mut Node {
    let at = children.iter().position(|(found, _)| *found == key).unwrap_or_else(|| {
        children.push((key, Node::default()));
        children.len() - 1
    });
    &mut children[at].1
}
