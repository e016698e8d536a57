//! What upstream's discovery and definitions say of a resource: its kind, its scope, who writes its JSON, which fields it
//! can be selected by. Resources whose revisions are not upstream's own are refused here.

use std::sync::Arc;

use serde::Deserialize;
use weir_core::mirror::{JsonForm, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::object::scan::FieldPathError;
use weir_core::selector::{CustomFields, FieldTable};
use weir_core::{GroupResource, GroupVersionResource};
use weir_upstream::Connection;

use super::request::{self, RequestError};

/// Why a resource cannot be mirrored.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// Upstream did not say.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Upstream does not serve it.
    #[error("upstream serves no {0}")]
    Unknown(GroupResource),
    /// It has no list or no watch.
    #[error("{0} cannot be listed and watched")]
    NoWatch(GroupResource),
    /// Another server answers for it; its revisions are not upstream's.
    #[error("{0} is served by an aggregated API server")]
    Aggregated(GroupResource),
    /// Its fields cannot be told from its objects.
    #[error("{0} selects by fields that its objects don't show")]
    Fields(GroupResource),
    /// Too many or too deep fields.
    #[error("the selectable fields of {resource}")]
    Paths {
        /// Which resource.
        resource: GroupResource,
        /// Why.
        #[source]
        source: FieldPathError,
    },
}

#[derive(Deserialize)]
struct ApiGroup {
    #[serde(rename = "preferredVersion")]
    preferred: Preferred,
}

#[derive(Deserialize)]
struct Preferred {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct Definition {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionVersion {
    name: String,
    #[serde(default)]
    selectable_fields: Vec<SelectableField>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectableField {
    json_path: String,
}

#[derive(Deserialize)]
struct ApiService {
    spec: ApiServiceSpec,
}

#[derive(Deserialize)]
struct ApiServiceSpec {
    #[serde(default)]
    service: Option<serde::de::IgnoredAny>,
}

/// The version of a resource that upstream prefers.
pub async fn preferred(
    connection: &Connection,
    wanted: &GroupResource,
) -> Result<GroupVersionResource, DescribeError> {
    if wanted.group.is_empty() {
        return Ok(GroupVersionResource::new("", "v1", &wanted.resource));
    }
    let path = format!("/apis/{}", wanted.group);
    let group: ApiGroup = found(request::get_json(connection, &path).await)?
        .ok_or_else(|| DescribeError::Unknown(wanted.clone()))?;
    Ok(GroupVersionResource::new(&wanted.group, &group.preferred.version, &wanted.resource))
}

/// What there is to know of a resource before it is read.
pub async fn describe(
    connection: &Connection,
    wanted: &GroupVersionResource,
) -> Result<MirrorSpec, DescribeError> {
    let named = wanted.group_resource();
    let all = wanted.collection_path();
    let version_path = all.strip_suffix(&format!("/{}", wanted.resource)).unwrap_or(&all);
    let served: Option<ResourceList> = found(request::get_json(connection, version_path).await)?;
    let resource = served
        .and_then(|served| served.resources.into_iter().find(|resource| *resource.name == *wanted.resource))
        .ok_or_else(|| DescribeError::Unknown(named.clone()))?;
    if !["list", "watch"].iter().all(|verb| resource.verbs.iter().any(|has| has == verb)) {
        return Err(DescribeError::NoWatch(named));
    }
    if is_aggregated(connection, wanted).await? {
        return Err(DescribeError::Aggregated(named));
    }
    let custom = custom_fields(connection, wanted, resource.namespaced).await?;
    let table =
        FieldTable::of(wanted, custom.as_ref()).ok_or_else(|| DescribeError::Fields(named.clone()))?;
    let schema = ObjectSchema::new(table)
        .map_err(|source| DescribeError::Paths { resource: named.clone(), source })?;
    Ok(MirrorSpec {
        resource: wanted.clone(),
        kind: resource.kind.into(),
        is_namespaced: resource.namespaced,
        form: if custom.is_some() { JsonForm::Custom } else { JsonForm::BuiltIn },
        schema: Arc::new(schema),
    })
}

async fn is_aggregated(
    connection: &Connection,
    wanted: &GroupVersionResource,
) -> Result<bool, DescribeError> {
    if wanted.group.is_empty() {
        return Ok(false);
    }
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{}.{}", wanted.version, wanted.group);
    let service: Option<ApiService> = found(request::get_json(connection, &path).await)?;
    Ok(service.is_some_and(|service| service.spec.service.is_some()))
}

/// The selectable fields of a custom resource; `None` for a built-in one.
async fn custom_fields(
    connection: &Connection,
    wanted: &GroupVersionResource,
    is_namespaced: bool,
) -> Result<Option<CustomFields>, DescribeError> {
    if !wanted.group.contains('.') {
        return Ok(None);
    }
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        wanted.resource, wanted.group
    );
    let definition: Option<Definition> = found(request::get_json(connection, &path).await)?;
    Ok(definition.map(|definition| {
        let version = definition.spec.versions.into_iter().find(|version| *version.name == *wanted.version);
        let fields = version.map(|version| version.selectable_fields).unwrap_or_default();
        CustomFields { is_namespaced, json_paths: fields.into_iter().map(|field| field.json_path).collect() }
    }))
}

/// A 404 is an answer here.
fn found<T>(answer: Result<T, RequestError>) -> Result<Option<T>, DescribeError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
