//! Lists and gets over HTTP: from options to the state that they ask for.
//!
//! `resourceVersion` is looked at as text first: `00` is the number 0 but not the text that asks for any state.

use std::num::IntErrorKind;

use weir_core::continue_token::{ContinueToken, TokenVersion};
use weir_core::options::{ListOptions, WatchListGate};
use weir_core::query::Query;
use weir_core::selector::{CustomFields, FieldSelector, FieldTable};
use weir_core::{ResourceVersion, Status};

use super::exchange::ResourceCall;
use super::form::{Form, View};
use super::respond::Answer;
use super::route::PathForm;
use crate::fields;
use crate::object::StoreKey;
use crate::read::{AnyState, ListQuery, ListVersion};
use crate::selection::Selection;

/// The options of a list or watch, checked as far as upstream checks them before it looks at any state.
pub(super) struct Options {
    pub(super) list: ListOptions,
    pub(super) selection: Selection,
    pub(super) form: Form,
    pub(super) is_watch: bool,
}

// === impl Options ===

impl Options {
    /// Reads and checks the options of a request for a collection.
    ///
    /// # Errors
    /// 400, 406 or 422, in upstream's order.
    pub(super) fn read(call: &ResourceCall) -> Result<Self, Status> {
        let exchange = &call.exchange;
        let form = Form::negotiate(&exchange.parts.headers, &exchange.query, &call.info)?;
        let mut list = ListOptions::decode(&exchange.query)?;
        list.validate(WatchListGate::On)?;
        check_fields(call, &list.field_selector)?;
        if let Some(name) = &call.target.name {
            list.field_selector = narrowed(&list.field_selector, name)?;
        }
        let is_watch = list.watch || call.target.form == PathForm::Watch;
        let selection =
            Selection { labels: list.label_selector.clone(), fields: list.field_selector.clone() };
        Ok(Self { list, selection, form, is_watch })
    }

    /// The namespace that a selector narrows a request for all of them to.
    pub(super) fn namespace(&self, call: &ResourceCall) -> Option<String> {
        let selected = || self.selection.fields.exact("metadata.namespace").map(str::to_owned);
        let is_narrowed = call.info.is_namespaced() && call.target.namespace.is_none();
        call.target.namespace.clone().or_else(|| if is_narrowed { selected() } else { None })
    }
}

/// Answers a list.
pub(super) async fn list(call: &ResourceCall, options: Options) -> Result<Answer, Status> {
    if options.form.view == View::Metadata {
        let object = go_type(call, "List");
        let text =
            format!("you requested PartialObjectMetadata, but the requested object is a list (*{object})");
        return Err(Status::new(406, "NotAcceptable", text));
    }
    let head = call.exchange.sim.ask(|cluster| cluster.log().head());
    let (version, start) = list_version(&options.list, head)?;
    let query = ListQuery {
        resource: call.resource,
        namespace: options.namespace(call),
        limit: usize::try_from(options.list.limit).ok().filter(|limit| *limit > 0),
        selection: options.selection,
        version,
        start,
    };
    let id = call.exchange.id;
    let page = call.exchange.patiently(|cluster, patience| cluster.list(id, &query, patience)).await?;
    Ok(Answer::json(200, options.form.list(&call.info, &page)))
}

/// Answers a get.
pub(super) async fn get(call: &ResourceCall) -> Result<Answer, Status> {
    let exchange = &call.exchange;
    let form = Form::negotiate(&exchange.parts.headers, &exchange.query, &call.info)?;
    if call.target.subresource.as_deref().is_some_and(|subresource| subresource != "status") {
        return Err(crate::refusal::no_such_resource());
    }
    let version = match exchange.query.get("resourceVersion").unwrap_or_default() {
        "" => ListVersion::Direct,
        "0" => ListVersion::Any,
        text => ListVersion::NotOlderThan(parse_version(text).map_err(|why| bad_version(call, why))?),
    };
    if exchange
        .query
        .get("export")
        .is_some_and(|text| ["1", "t", "T", "TRUE", "true", "True"].contains(&text))
    {
        let text = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(text));
    }
    let key =
        StoreKey::new(call.target.namespace.as_deref(), call.target.name.as_deref().unwrap_or_default());
    let at = (exchange.id, call.resource);
    let object = exchange.patiently(|cluster, patience| cluster.get(at, (&key, version), patience)).await?;
    if form.view == View::MetadataList {
        let object = go_type(call, "");
        let text = format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*{object})"
        );
        return Err(Status::new(406, "NotAcceptable", text));
    }
    Ok(Answer::json(200, form.object(&object)))
}

/// A get's broken resourceVersion: a cache makes another error of it than the storage.
fn bad_version(call: &ResourceCall, why: String) -> Status {
    if call.info.is_cached() {
        Status::new(500, "", why)
    } else {
        Status::bad_request(format!("invalid resource version: {why}"))
    }
}

/// The name of upstream's own type, which shows in some errors.
fn go_type(call: &ResourceCall, suffix: &str) -> String {
    let group = call.info.gvr.group.split('.').next().unwrap_or_default();
    match (call.info.is_custom(), group) {
        (true, _) => format!("unstructured.Unstructured{suffix}"),
        (false, "") => format!("core.{}{suffix}", call.info.kind),
        (false, group) => format!("{group}.{}{suffix}", call.info.kind),
    }
}

/// A resourceVersion as the storage reads it.
///
/// # Errors
/// Upstream's text.
pub(super) fn parse_version(text: &str) -> Result<ResourceVersion, String> {
    let number = match text.as_bytes() {
        [b'+' | b'-', ..] => None,
        _ => Some(text.parse::<u64>()),
    };
    let fault = match number {
        Some(Ok(number)) => return Ok(ResourceVersion::new(number)),
        Some(Err(error)) if *error.kind() == IntErrorKind::PosOverflow => "value out of range",
        Some(Err(_)) | None => "invalid syntax",
    };
    Err(format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": {fault}"))
}

/// The name that a field selector asks for, if the options can be read at all.
pub(super) fn named_by_selector(query: &Query) -> Option<String> {
    let options = ListOptions::decode(query).ok()?;
    options.field_selector.exact("metadata.name").map(str::to_owned)
}

/// The state that list options ask for, and the key from which on.
fn list_version(options: &ListOptions, head: ResourceVersion) -> Result<(ListVersion, String), Status> {
    let text = &*options.resource_version;
    if !options.continue_token.is_empty() {
        let ContinueToken { rv, start } = ContinueToken::decode(&options.continue_token)?;
        let any = match text {
            "" => AnyState::NotAsked,
            "0" => AnyState::Asked,
            _ => {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message));
            }
        };
        let version = match (rv, any) {
            (TokenVersion::At(at), any) => ListVersion::Token { at, any },
            (TokenVersion::Latest, AnyState::NotAsked) => ListVersion::Consistent(head),
            (TokenVersion::Latest, AnyState::Asked) => ListVersion::Any,
        };
        return Ok((version, start));
    }
    if text.is_empty() {
        return Ok((ListVersion::Consistent(head), String::new()));
    }
    let rv =
        parse_version(text).map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    let version = match (&*options.resource_version_match, options.limit > 0) {
        ("Exact", _) => ListVersion::Exact(rv),
        ("", true) if text != "0" && rv.is_zero() => ListVersion::Direct,
        ("", true) if text != "0" => ListVersion::Exact(rv),
        _ if rv.is_zero() => ListVersion::Any,
        _ => ListVersion::NotOlderThan(rv),
    };
    Ok((version, String::new()))
}

/// The selector of a path that names an object; a given one must not name another.
fn narrowed(selector: &FieldSelector, name: &str) -> Result<FieldSelector, Status> {
    const NAME: &str = "metadata.name";
    if selector.is_everything() {
        return Ok(FieldSelector::equals(NAME, name));
    }
    let is_same = selector.exact(NAME) == Some(name);
    let fault = || Status::bad_request("fieldSelector metadata.name doesn't match requested name");
    is_same.then(|| selector.clone()).ok_or_else(fault)
}

/// Refuses a field label that the resource cannot be selected by.
fn check_fields(call: &ResourceCall, selector: &FieldSelector) -> Result<(), Status> {
    let info = &call.info;
    let custom = info.is_custom().then(|| CustomFields {
        is_namespaced: info.is_namespaced(),
        json_paths: info.selectable.iter().map(|path| format!(".{path}")).collect(),
    });
    match FieldTable::of(&info.gvr, custom.as_ref()) {
        Some(table) => table.resolve(selector).map(|_| ()).map_err(Status::from),
        None => match selector.requirements().iter().find(|term| !fields::is_of_events(&term.label)) {
            Some(term) => Err(Status::bad_request(format!("field label not supported: {}", term.label))),
            None => Ok(()),
        },
    }
}
