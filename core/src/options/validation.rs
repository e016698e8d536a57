//! The checks of options against each other, in upstream's order, and the 422 that tells all faults at once. A `/watch/`
//! path without `watch` in its query is checked as a list.

use super::defaults::{EXACT, NOT_OLDER_THAN};
use super::{ListOptions, WatchListGate};
use crate::go_text::quote;
use crate::status::{Cause, Details, Status};

const MATCH: &str = "resourceVersionMatch";
const INITIAL: &str = "sendInitialEvents";

/// The faults found so far.
#[derive(Default)]
struct Faults(Vec<Cause>);

pub(super) fn check(options: &ListOptions, gate: WatchListGate) -> Result<(), Status> {
    let faults = if options.watch { watch_faults(options, gate) } else { list_faults(options) };
    faults.into_result()
}

fn list_faults(options: &ListOptions) -> Faults {
    let mut faults = Faults::default();
    let wanted = options.resource_version_match.as_str();
    if !wanted.is_empty() {
        if options.resource_version.is_empty() {
            faults.forbid(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !options.continue_token.is_empty() {
            faults.forbid(MATCH, "resourceVersionMatch is forbidden when continue is provided");
        }
        if wanted != EXACT && wanted != NOT_OLDER_THAN {
            faults.unsupported(MATCH, wanted, &[EXACT, NOT_OLDER_THAN, ""]);
        }
        if wanted == EXACT && options.resource_version == "0" {
            faults.forbid(MATCH, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if options.send_initial_events.is_some() {
        faults.forbid(INITIAL, "sendInitialEvents is forbidden for list");
    }
    faults
}

fn watch_faults(options: &ListOptions, gate: WatchListGate) -> Faults {
    let mut faults = Faults::default();
    let wanted = options.resource_version_match.as_str();
    if options.send_initial_events.is_some() {
        if wanted != NOT_OLDER_THAN {
            faults.forbid(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if gate == WatchListGate::Off {
            let text =
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            faults.forbid(INITIAL, text);
        }
    }
    if !wanted.is_empty() {
        if options.send_initial_events.is_none() {
            faults.forbid(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if wanted != NOT_OLDER_THAN {
            faults.unsupported(MATCH, wanted, &[NOT_OLDER_THAN]);
        }
        if !options.continue_token.is_empty() {
            faults.forbid(MATCH, "resourceVersionMatch is forbidden when continue is provided");
        }
    }
    faults
}

// === impl Faults ===

impl Faults {
    fn forbid(&mut self, field: &'static str, text: &str) {
        self.push("FieldValueForbidden", format!("Forbidden: {text}"), field);
    }

    fn unsupported(&mut self, field: &'static str, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|text| quote(text)).collect();
        let text = format!("Unsupported value: {}: supported values: {}", quote(value), supported.join(", "));
        self.push("FieldValueNotSupported", text, field);
    }

    fn push(&mut self, reason: &'static str, message: String, field: &'static str) {
        self.0.push(Cause { reason: reason.into(), message: message.into(), field: field.into() });
    }

    fn into_result(self) -> Result<(), Status> {
        if self.0.is_empty() {
            return Ok(());
        }
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {}", self.joined());
        let details = Details {
            group: "meta.k8s.io".into(),
            kind: "ListOptions".into(),
            causes: self.0,
            ..Details::default()
        };
        Err(Status::new(422, "Invalid", message).with_details(details))
    }

    /// One fault stands alone; several stand in brackets, each text once.
    fn joined(&self) -> String {
        let mut texts: Vec<String> = Vec::new();
        for cause in &self.0 {
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        if let [text] = texts.as_slice() { text.clone() } else { format!("[{}]", texts.join(", ")) }
    }
}
