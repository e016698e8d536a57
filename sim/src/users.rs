//! Who may do what at the simulated apiserver: bearer tokens, front proxies, and rights in the manner of RBAC.
//!
//! A right with no namespaces named holds everywhere and at cluster scope; one with namespaces holds only in them.
//! Members of `system:masters` may do everything.

use std::collections::{BTreeMap, HashMap};

use weir_core::Status;
use weir_core::selector::FieldSelector;
use weir_core::status::Details;

/// Somebody who has a token.
#[derive(Debug, Clone, Default)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The groups, without `system:authenticated`, which everybody with a token is in.
    pub groups: Vec<String>,
    /// What else is known of them.
    pub extra: BTreeMap<String, Vec<String>>,
    /// What they may do.
    pub rights: Vec<Right>,
}

/// One right. `*` in a list means all.
#[derive(Debug, Clone, Default)]
pub struct Right {
    /// Verbs: `get`, `list`, `watch`, `create` …
    pub verbs: Vec<String>,
    /// API groups; the empty string is the core group.
    pub groups: Vec<String>,
    /// Plurals, `plural/subresource` for subresources.
    pub resources: Vec<String>,
    /// Namespaces; none named means everywhere.
    pub namespaces: Vec<String>,
    /// Names of objects; none named means all.
    pub names: Vec<String>,
    /// Terms that the field selector of a request must have, `spec.nodeName=node-1`; none means any request.
    pub selecting: Vec<String>,
}

/// Users by token.
#[derive(Debug, Clone, Default)]
pub struct Users {
    by_token: HashMap<String, User>,
    front_proxies: Vec<Vec<u8>>,
}

/// What somebody wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attributes {
    /// Something with a resource.
    Resource(ResourceAttributes),
    /// Something with a path that is none.
    Path {
        /// The method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

/// What somebody wants to do with a resource. Empty strings stand for what is not named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// The verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The terms of the field selector, where a right may depend on them.
    pub fields: Vec<String>,
}

// === impl User ===

impl User {
    /// Somebody who may do everything.
    pub fn admin(name: &str) -> Self {
        Self { groups: vec!["system:masters".to_owned()], ..Self::named(name) }
    }

    /// Somebody who may do nothing yet.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), uid: format!("uid-{name}"), ..Self::default() }
    }

    /// Who comes without a credential.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Gives one more right.
    #[must_use]
    pub fn may(mut self, right: Right) -> Self {
        self.rights.push(right);
        self
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous"
    }

    /// All groups, in the order in which a review shows them.
    pub(crate) fn all_groups(&self) -> Vec<String> {
        let mut groups = self.groups.clone();
        let is_told = groups.iter().any(|group| group == "system:authenticated");
        if !self.is_anonymous() && !is_told {
            groups.push("system:authenticated".to_owned());
        }
        groups
    }

    /// Whether this user may do everything.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }

    /// Whether this user may do that.
    pub fn is_allowed(&self, wanted: &Attributes) -> bool {
        if self.is_master() {
            return true;
        }
        match wanted {
            Attributes::Path { verb, path } => verb == "get" && self.may_read_path(path),
            Attributes::Resource(wanted) => {
                let is_review =
                    ["selfsubjectreviews", "selfsubjectaccessreviews"].contains(&&*wanted.resource);
                let is_basic = is_review && wanted.verb == "create" && !self.is_anonymous();
                is_basic || self.rights.iter().any(|right| right.covers(wanted))
            }
        }
    }

    fn may_read_path(&self, path: &str) -> bool {
        let is_public = ["/healthz", "/livez", "/readyz", "/version", "/version/"].contains(&path);
        let is_discovery = ["/api", "/apis", "/openapi"]
            .iter()
            .any(|root| path == *root || path.starts_with(&format!("{root}/")));
        is_public || (is_discovery && !self.is_anonymous())
    }
}

// === impl Attributes ===

impl Attributes {
    /// The verb.
    pub fn verb(&self) -> &str {
        match self {
            Self::Resource(wanted) => &wanted.verb,
            Self::Path { verb, .. } => verb,
        }
    }

    /// The same with something before the verb.
    pub(crate) fn with_verb_prefix(&self, prefix: &str) -> Self {
        let mut prefixed = self.clone();
        match &mut prefixed {
            Self::Resource(wanted) => wanted.verb.insert_str(0, prefix),
            Self::Path { verb, .. } => verb.insert_str(0, prefix),
        }
        prefixed
    }
}

// === impl Right ===

impl Right {
    /// Verbs on resources of a group, everywhere.
    pub fn new(verbs: &[&str], group: &str, resources: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self { verbs: owned(verbs), groups: owned(&[group]), resources: owned(resources), ..Self::default() }
    }

    /// The same in one namespace only.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// The same for one object's name only.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.names.push(name.to_owned());
        self
    }

    /// The same for requests only whose field selector has this term, as those of a node have for the pods on it.
    #[must_use]
    pub fn selecting(mut self, term: &str) -> Self {
        self.selecting.push(term.to_owned());
        self
    }

    fn covers(&self, wanted: &ResourceAttributes) -> bool {
        let has = |list: &[String], value: &str| list.iter().any(|own| own == "*" || own == value);
        let resource = match &*wanted.subresource {
            "" => wanted.resource.clone(),
            subresource => format!("{}/{subresource}", wanted.resource),
        };
        has(&self.verbs, &wanted.verb)
            && has(&self.groups, &wanted.group)
            && has(&self.resources, &resource)
            && (self.namespaces.is_empty() || has(&self.namespaces, &wanted.namespace))
            && (self.names.is_empty() || self.names.contains(&wanted.name))
            && self.selecting.iter().all(|term| wanted.fields.contains(term))
    }
}

// === impl ResourceAttributes ===

impl ResourceAttributes {
    /// The terms of a field selector; of one that cannot be read, none.
    pub(crate) fn terms(selector: &str) -> Vec<String> {
        let selector = FieldSelector::parse(selector).unwrap_or_default();
        selector.requirements().iter().map(ToString::to_string).collect()
    }
}

// === impl Users ===

impl Users {
    /// Gives somebody a token, or another user to a token that is there.
    pub fn set(&mut self, token: &str, user: User) {
        self.by_token.insert(token.to_owned(), user);
    }

    /// Believes whoever shows this certificate, in DER, what they say of the users of their requests.
    pub fn trust_front_proxy(&mut self, certificate: &[u8]) {
        self.front_proxies.push(certificate.to_vec());
    }

    /// Believes no front proxy any more.
    pub fn distrust_front_proxies(&mut self) {
        self.front_proxies.clear();
    }

    /// Whether somebody who shows this certificate is believed.
    pub(crate) fn is_front_proxy(&self, certificate: &[u8]) -> bool {
        self.front_proxies.iter().any(|trusted| trusted == certificate)
    }

    /// Makes a token worthless.
    pub fn revoke(&mut self, token: &str) {
        self.by_token.remove(token);
    }

    /// The user of a name who has a token.
    pub fn named(&self, name: &str) -> Option<User> {
        self.by_token.values().find(|user| user.name == name).cloned()
    }

    /// Who an Authorization header stands for; `None` for a token that nobody has.
    pub fn who(&self, authorization: Option<&str>) -> Option<User> {
        let bearer = authorization.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            let is_one =
                scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && !token.starts_with(' ');
            is_one.then_some(token)
        });
        bearer.map_or_else(|| Some(User::anonymous()), |token| self.by_token.get(token).cloned())
    }
}

/// 403 in upstream's words.
pub(crate) fn forbidden(user: &User, wanted: &Attributes) -> Status {
    let refuse = |message: String, details: Details| Status {
        details: Some(details),
        ..Status::new(403, "Forbidden", message)
    };
    let wanted = match wanted {
        Attributes::Path { verb, path } => {
            let message = format!("forbidden: User \"{}\" cannot {verb} path \"{path}\"", user.name);
            return refuse(message, Details::default());
        }
        Attributes::Resource(wanted) => wanted,
    };
    let ResourceAttributes { verb, group, resource, subresource, namespace, name, fields: _ } = wanted;
    let dotted = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
    let object = if name.is_empty() { dotted } else { format!("{dotted} \"{name}\"") };
    let full = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{namespace}\"")
    };
    let message = format!(
        "{object} is forbidden: User \"{}\" cannot {verb} resource \"{full}\" in API group \"{group}\" {place}",
        user.name
    );
    let details = Details {
        name: name.clone().into(),
        group: group.clone().into(),
        kind: resource.clone().into(),
        ..Details::default()
    };
    refuse(message, details)
}
