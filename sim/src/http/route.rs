//! What a path names. Only the paths of the resource API and of discovery; everything else is not found.
//!
//! Segments are decoded before they are looked at, and `namespaces//pods` is the collection over all namespaces.

use percent_encoding::percent_decode_str;
use weir_core::GroupVersionResource;

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// A collection or an object of it.
    Resource(Target),
    /// `/version`.
    Version,
    /// `/healthz`, `/livez` or `/readyz`.
    Health,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`: group and version.
    Resources(String, String),
    /// `/openapi/v3`.
    OpenApi,
    /// `/openapi/v3/ROOT`: the document of a group and version.
    OpenApiOf(String),
    /// Nothing.
    Unknown,
}

/// What a path of the resource API names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Group, version and plural.
    pub(crate) gvr: GroupVersionResource,
    /// The namespace; none for all of them and at cluster scope.
    pub(crate) namespace: Option<String>,
    /// The object's name.
    pub(crate) name: Option<String>,
    /// The subresource.
    pub(crate) subresource: Option<String>,
    /// Whether it is one of the deprecated paths of watches.
    pub(crate) form: PathForm,
}

/// The two forms of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathForm {
    /// The usual one.
    Plain,
    /// With `/watch/` before the collection.
    Watch,
}

// === impl Route ===

impl Route {
    /// Reads a path.
    pub(crate) fn parse(path: &str) -> Self {
        let trimmed = path.trim_end_matches('/');
        let decode = |segment: &str| percent_decode_str(segment).decode_utf8_lossy().into_owned();
        let decoded: String = decode(trimmed);
        let segments: Vec<&str> = decoded.split('/').skip(1).collect();
        match segments[..] {
            ["version"] => Self::Version,
            ["healthz" | "livez" | "readyz"] => Self::Health,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["openapi", "v3"] => Self::OpenApi,
            ["openapi", "v3", ref root @ ..] => Self::OpenApiOf(root.join("/")),
            ["apis", group] => Self::Group(group.to_owned()),
            ["api", version] => Self::Resources(String::new(), version.to_owned()),
            ["apis", group, version] => Self::Resources(group.to_owned(), version.to_owned()),
            ["api", version, ref rest @ ..] => Self::resource(("", version), rest),
            ["apis", group, version, ref rest @ ..] => Self::resource((group, version), rest),
            _ => Self::Unknown,
        }
    }

    fn resource((group, version): (&str, &str), rest: &[&str]) -> Self {
        let (form, rest) = match rest {
            ["watch", rest @ ..] => (PathForm::Watch, rest),
            rest => (PathForm::Plain, rest),
        };
        let (namespace, rest) = match rest {
            ["namespaces", "", rest @ ..] if !rest.is_empty() => (None, rest),
            // A namespace's own subresources, and the namespace itself.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        if rest.iter().any(|segment| ["", ".", ".."].contains(segment)) {
            return Self::Unknown;
        }
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some((*name).to_owned()), None),
            [resource, name, rest @ ..] => (*resource, Some((*name).to_owned()), Some(rest.join("/"))),
            [] => return Self::Unknown,
        };
        let gvr = GroupVersionResource::new(group, version, resource);
        Self::Resource(Target { gvr, namespace, name, subresource, form })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> (String, Option<String>, Option<String>, Option<String>) {
        match Route::parse(path) {
            Route::Resource(target) => {
                (target.gvr.to_string(), target.namespace, target.name, target.subresource)
            }
            other => panic!("{path} is {other:?}"),
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn paths_name_what_upstream_says() {
        assert_eq!(target("/api/v1/pods"), ("pods@v1".into(), None, None, None));
        assert_eq!(target("/api/v1/namespaces/a/pods/"), ("pods@v1".into(), some("a"), None, None));
        assert_eq!(target("/api/v1/namespaces//pods"), ("pods@v1".into(), None, None, None));
        assert_eq!(target("/api/v1/namespaces/a%2Fpods"), ("pods@v1".into(), some("a"), None, None));
        assert_eq!(target("/api/v1/namespaces/a"), ("namespaces@v1".into(), None, some("a"), None));
        let deployment = target("/apis/apps/v1/namespaces/a/deployments/b/status");
        assert_eq!(deployment, ("deployments.apps@v1".into(), some("a"), some("b"), some("status")));
        assert_eq!(
            target("/api/v1/watch/namespaces/a/pods/b"),
            ("pods@v1".into(), some("a"), some("b"), None)
        );
    }

    #[test]
    fn other_paths_are_discovery_or_nothing() {
        assert_eq!(Route::parse("/apis/"), Route::Groups);
        assert_eq!(Route::parse("/api/v1"), Route::Resources(String::new(), "v1".into()));
        assert_eq!(Route::parse("/api/v1//pods"), Route::Unknown);
        assert_eq!(Route::parse("/api/v1/namespaces/a/../pods"), Route::Unknown);
        assert_eq!(Route::parse("/nope"), Route::Unknown);
    }
}
