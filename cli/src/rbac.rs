//! `weir rbac`: the least that weir's own identity has to be allowed, as manifests for kubectl. Callers are judged with their own
//! credentials, so nothing here is about them; and without a right that weir lacks, requests are passed through.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use clap::Args;
use weir_core::GroupResource;

use crate::process::say;

/// Arguments of `weir rbac`.
#[derive(Debug, Args)]
pub(crate) struct RbacArguments {
    /// What is mirrored: pods,deployments.apps. Without it, only the role is printed that serves whatever is mirrored; which
    /// resources weir may read has to be chosen.
    #[arg(long, value_name = "RESOURCE,…", value_delimiter = ',')]
    mirror: Vec<String>,
    /// Bind the roles to this service account.
    #[arg(long, value_name = "NAMESPACE:NAME")]
    service_account: Option<ServiceAccount>,
}

/// Whom the roles are for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServiceAccount {
    namespace: String,
    name: String,
}

/// What was given is not the name of a service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a service account is given as NAMESPACE:NAME")]
struct NotAnAccount;

/// One rule, and why weir needs it.
struct Rule {
    why: &'static str,
    what: What,
    verbs: &'static [&'static str],
}

/// What a rule is about.
enum What {
    /// Paths that are no resources.
    Paths(Vec<String>),
    /// Resources of one group, all of them or those with these names.
    Resources { group: String, resources: Vec<String>, names: Vec<String> },
}

/// A ClusterRole.
struct Role {
    name: &'static str,
    rules: Vec<Rule>,
}

/// Prints the roles.
pub(crate) fn rbac(arguments: &RbacArguments) {
    let named = arguments.mirror.iter().filter(|name| !name.is_empty());
    let mirrored: BTreeSet<GroupResource> = named.map(|name| GroupResource::parse(name)).collect();
    let manifests = roles(&mirrored).into_iter().flat_map(|role| {
        let binding = arguments.service_account.as_ref().map(|account| binding(&role, account));
        std::iter::once(role.to_string()).chain(binding)
    });
    say(manifests.collect::<Vec<_>>().join("---\n").trim_end());
}

// === impl ServiceAccount ===

impl FromStr for ServiceAccount {
    type Err = NotAnAccount;

    fn from_str(text: &str) -> Result<Self, NotAnAccount> {
        match text.split_once(':') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(NotAnAccount),
        }
    }
}

// === impl Role ===

impl Display for Role {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:")?;
        writeln!(f, "  name: {}\nrules:", self.name)?;
        self.rules.iter().try_for_each(|rule| rule.fmt(f))
    }
}

// === impl Rule ===

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  # {}", self.why)?;
        match &self.what {
            What::Paths(paths) => writeln!(f, "  - nonResourceURLs: {}", list(paths))?,
            What::Resources { group, resources, names } => {
                writeln!(f, "  - apiGroups: {}\n    resources: {}", list(&[group]), list(resources))?;
                if !names.is_empty() {
                    writeln!(f, "    resourceNames: {}", list(names))?;
                }
            }
        }
        writeln!(f, "    verbs: {}", list(self.verbs))
    }
}

/// The role that serves whatever is mirrored, and that of what is.
fn roles(mirrored: &BTreeSet<GroupResource>) -> Vec<Role> {
    let serving = Role { name: "weir-shard", rules: serving(mirrored) };
    let mut by_group: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for GroupResource { group, resource } in mirrored {
        by_group.entry(group).or_default().push(resource.to_string());
    }
    let rules = by_group.into_iter().map(|(group, resources)| Rule {
        why: "A mirror is read by list and watch alone.",
        what: What::Resources { group: group.to_owned(), resources, names: Vec::new() },
        verbs: &["list", "watch"],
    });
    let mirrors = Role { name: "weir-mirrored", rules: rules.collect() };
    [serving, mirrors].into_iter().filter(|role| !role.rules.is_empty()).collect()
}

/// What weir asks before it reads a resource. The core group has no aggregated server and no definitions, and what is defined
/// has a group with a dot.
fn serving(mirrored: &BTreeSet<GroupResource>) -> Vec<Rule> {
    let is_any = mirrored.is_empty();
    let groups: BTreeSet<&str> = mirrored.iter().map(|resource| &*resource.group).collect();
    let defined = mirrored.iter().filter(|resource| resource.group.contains('.'));
    let defined: Vec<String> = defined.map(ToString::to_string).collect();
    let object = |why, group: &str, resource: &str, names| Rule {
        why,
        what: What::Resources { group: group.to_owned(), resources: vec![resource.to_owned()], names },
        verbs: &["get"],
    };
    let mut rules = vec![
        Rule {
            why: "Discovery: the preferred version of a group, the kind of a resource, whether it can be watched.",
            what: What::Paths(discovery(&groups)),
            verbs: &["get"],
        },
        object(
            "The uid of kube-system is the cluster's identity: mirrors of another one are thrown away.",
            "",
            "namespaces",
            vec!["kube-system".to_owned()],
        ),
    ];
    if is_any || groups.iter().any(|group| !group.is_empty()) {
        let why = "Whether a group is served by an aggregated API server, whose revisions are its own.";
        rules.push(object(why, "apiregistration.k8s.io", "apiservices", Vec::new()));
    }
    if is_any || !defined.is_empty() {
        let why = "By which fields a custom resource can be selected.";
        rules.push(object(why, "apiextensions.k8s.io", "customresourcedefinitions", defined));
    }
    rules
}

fn discovery(groups: &BTreeSet<&str>) -> Vec<String> {
    if groups.is_empty() {
        return ["/api/v1", "/apis/*"].map(str::to_owned).to_vec();
    }
    let paths = groups.iter().flat_map(|group| match *group {
        "" => vec!["/api/v1".to_owned()],
        group => vec![format!("/apis/{group}"), format!("/apis/{group}/*")],
    });
    paths.collect()
}

fn binding(role: &Role, account: &ServiceAccount) -> String {
    let (name, ServiceAccount { namespace, name: account }) = (role.name, account);
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {name}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {name}
subjects:
  - kind: ServiceAccount
    name: {}
    namespace: {}
",
        quoted(account),
        quoted(namespace)
    )
}

/// YAML takes JSON's lists and strings.
fn list(words: &[impl AsRef<str>]) -> String {
    let words: Vec<_> = words.iter().map(|word| quoted(word.as_ref())).collect();
    format!("[{}]", words.join(", "))
}

fn quoted(word: &str) -> String {
    serde_json::Value::from(word).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(mirrored: &[&str]) -> String {
        let mirrored = mirrored.iter().map(|name| GroupResource::parse(name)).collect();
        roles(&mirrored).iter().map(ToString::to_string).collect()
    }

    /// The lines that matter, without comments.
    fn rules(mirrored: &[&str]) -> Vec<String> {
        let text = printed(mirrored);
        let lines = text.lines().filter(|line| line.starts_with("  - ") || line.starts_with("    "));
        lines.map(|line| line.trim_start_matches([' ', '-']).to_owned()).collect()
    }

    #[test]
    fn the_core_group_needs_no_definitions() {
        let expected = [
            r#"nonResourceURLs: ["/api/v1"]"#,
            r#"verbs: ["get"]"#,
            r#"apiGroups: [""]"#,
            r#"resources: ["namespaces"]"#,
            r#"resourceNames: ["kube-system"]"#,
            r#"verbs: ["get"]"#,
            r#"apiGroups: [""]"#,
            r#"resources: ["configmaps", "pods"]"#,
            r#"verbs: ["list", "watch"]"#,
        ];
        assert_eq!(rules(&["pods", "configmaps", "pods"]), expected);
    }

    #[test]
    fn other_groups_are_looked_up_and_defined_ones_by_their_names() {
        let found = rules(&["deployments.apps", "gauges.metering.weir.test"]).join("\n");
        for expected in [
            r#"nonResourceURLs: ["/apis/apps", "/apis/apps/*", "/apis/metering.weir.test", "/apis/metering.weir.test/*"]"#,
            "resources: [\"apiservices\"]\nverbs: [\"get\"]",
            "resources: [\"customresourcedefinitions\"]\nresourceNames: [\"gauges.metering.weir.test\"]",
            "apiGroups: [\"apps\"]\nresources: [\"deployments\"]\nverbs: [\"list\", \"watch\"]",
        ] {
            assert!(found.contains(expected), "{expected} is not in\n{found}");
        }
        assert!(!rules(&["deployments.apps"]).join("\n").contains("customresourcedefinitions"));
    }

    #[test]
    fn without_mirrors_nothing_may_be_read_but_what_tells_of_resources() {
        let text = printed(&[]);
        assert!(text.contains(r#"["/api/v1", "/apis/*"]"#) && !text.contains("weir-mirrored"), "{text}");
        assert!(!text.contains("watch\""), "{text}");
    }

    #[test]
    fn names_are_quoted_and_accounts_have_two_parts() {
        assert!(printed(&["a\"b: *"]).contains(r#"resources: ["a\"b: *"]"#));
        assert_eq!("weir".parse::<ServiceAccount>(), Err(NotAnAccount));
        let account = "weir:weir-shard".parse::<ServiceAccount>().unwrap();
        let role = &roles(&BTreeSet::new())[0];
        assert!(binding(role, &account).ends_with("    name: \"weir-shard\"\n    namespace: \"weir\"\n"));
    }
}
