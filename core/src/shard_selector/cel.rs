//! An expression of CEL as a tree, as far as a shard selector needs one: what an operator other than `||` works on is
//! forgotten, because such an operator is refused by its name, and so is the receiver of a call.

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    /// A character that begins no word.
    #[error("Syntax error: token recognition error at: '{0}'")]
    Unknown(char),
    /// A word that cannot stand where it stands.
    #[error("Syntax error: unexpected {0}")]
    Unexpected(String),
    /// A text that ends too early.
    #[error("Syntax error: unexpected end")]
    End,
    /// A name that is not free to be used.
    #[error("reserved identifier: {0}")]
    Reserved(String),
    /// Optional members and elements, which are not switched on.
    #[error("unsupported syntax '{0}?'")]
    Optional(&'static str),
    /// A number beyond its type.
    #[error("invalid {0} literal")]
    Number(&'static str),
    /// An escape that stands for no character.
    #[error("invalid escape in a string literal")]
    Escape,
    /// Too many expressions inside each other, or operators and members in a row.
    #[error("expression recursion limit exceeded: {0}")]
    Depth(usize),
    /// Too long.
    #[error("expression code point size exceeds limit: size: {0}, limit {1}")]
    Size(usize, usize),
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Name(String),
    Member {
        of: Box<Expr>,
        name: String,
    },
    /// A call, or an operator under the name that CEL gives it.
    Call {
        function: String,
        arguments: Vec<Expr>,
    },
    Or(Vec<Expr>),
    Literal(Literal),
    List,
    Map,
    Message,
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Text(String),
    /// Of another type, under Go's name of it.
    Other(&'static str),
}

// === impl Expr ===

impl Expr {
    /// CEL's number for the kind of expression.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Call { .. } | Self::Or(_) => 1,
            Self::Name(_) => 3,
            Self::List => 4,
            Self::Literal(_) => 5,
            Self::Map => 6,
            Self::Member { .. } => 7,
            Self::Message => 8,
        }
    }

    /// The names of a path with dots between them, or the expression at its start that is no name.
    pub(super) fn path(&self) -> Result<String, &Self> {
        match self {
            Self::Name(name) => Ok(name.clone()),
            Self::Member { of, name } => of.path().map(|path| format!("{path}.{name}")),
            Self::Call { .. } | Self::Or(_) | Self::Literal(_) | Self::List | Self::Map | Self::Message => {
                Err(self)
            }
        }
    }
}
