//! Whom changes of roles and bindings name.

use super::*;

fn set(rbac: &mut Rbac, kind: Kind, text: &str) -> Option<Named> {
    rbac.set(kind, serde_json::from_str(text).unwrap())
}

fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    Key { kind, namespace: namespace.into(), name: name.into() }
}

fn named(subjects: &[Subject], namespace: Option<&str>) -> Option<Named> {
    Some(Named { subjects: subjects.iter().cloned().collect(), namespace: namespace.map(Into::into) })
}

fn user(name: &str) -> Subject {
    Subject::User(name.into())
}

const READERS: &str = r#"{"metadata":{"name":"readers","namespace":"harbor"},"roleRef":{"kind":"Role","name":"reader"},
    "subjects":[{"kind":"User","name":"bob"},{"kind":"Group","name":"devs"},
    {"kind":"ServiceAccount","name":"crane","namespace":"yard"}]}"#;

#[test]
fn a_binding_that_goes_names_its_subjects_and_one_that_comes_names_nobody() {
    let mut rbac = Rbac::default();
    assert_eq!(set(&mut rbac, Kind::RoleBinding, READERS), None);
    assert_eq!(set(&mut rbac, Kind::RoleBinding, READERS), None, "nothing changed");
    let all = [user("bob"), Subject::Group("devs".into()), user("system:serviceaccount:yard:crane")];
    assert_eq!(rbac.delete(&key(Kind::RoleBinding, "harbor", "readers")), named(&all, Some("harbor")));
    assert_eq!(rbac.delete(&key(Kind::RoleBinding, "harbor", "readers")), None);
}

#[test]
fn a_binding_that_changes_names_those_who_are_not_in_it_any_more() {
    let mut rbac = Rbac::default();
    set(&mut rbac, Kind::RoleBinding, READERS);
    let fewer = READERS.replace(r#"{"kind":"User","name":"bob"},"#, "");
    assert_eq!(set(&mut rbac, Kind::RoleBinding, &fewer), named(&[user("bob")], Some("harbor")));
    assert_eq!(set(&mut rbac, Kind::RoleBinding, READERS), None, "more");
    let none =
        r#"{"metadata":{"name":"readers","namespace":"harbor"},"roleRef":{"kind":"Role","name":"reader"}}"#;
    assert_eq!(set(&mut rbac, Kind::RoleBinding, none).unwrap().subjects.len(), 3);
}

#[test]
fn a_role_whose_rules_change_names_those_who_are_bound_to_it() {
    let mut rbac = Rbac::default();
    let role = r#"{"metadata":{"name":"reader"},"rules":[{"verbs":["list","watch"]}]}"#;
    set(&mut rbac, Kind::ClusterRole, role);
    let bound = |name: &str, namespace: &str, user: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"roleRef":{{"kind":"ClusterRole","name":"reader"}},
            "subjects":[{{"kind":"User","name":"{user}"}}]}}"#
        )
    };
    set(&mut rbac, Kind::RoleBinding, &bound("a", "harbor", "bob"));
    assert_eq!(set(&mut rbac, Kind::ClusterRole, role), None, "its rules are the same");
    let less = role.replace(r#","watch""#, "");
    assert_eq!(set(&mut rbac, Kind::ClusterRole, &less), named(&[user("bob")], Some("harbor")));
    // A role of the same name in a namespace is another one.
    let own = r#"{"metadata":{"name":"reader","namespace":"harbor"},"rules":[]}"#;
    set(&mut rbac, Kind::Role, own);
    assert_eq!(rbac.delete(&key(Kind::Role, "harbor", "reader")), None);
    set(&mut rbac, Kind::ClusterRoleBinding, &bound("b", "", "eve"));
    let both = named(&[user("bob"), user("eve")], None);
    assert_eq!(rbac.delete(&key(Kind::ClusterRole, "", "reader")), both);
}

#[test]
fn what_is_not_in_a_list_any_more_was_deleted() {
    let mut rbac = Rbac::default();
    set(&mut rbac, Kind::RoleBinding, READERS);
    set(&mut rbac, Kind::ClusterRole, r#"{"metadata":{"name":"other"},"rules":[]}"#);
    let kept = HashSet::from([key(Kind::RoleBinding, "harbor", "readers")]);
    assert_eq!(rbac.retain(Kind::RoleBinding, &kept), []);
    assert_eq!(rbac.retain(Kind::RoleBinding, &HashSet::new()).len(), 1);
    assert_eq!((rbac.bindings.len(), rbac.roles.len()), (0, 1), "kinds are told apart");
}
