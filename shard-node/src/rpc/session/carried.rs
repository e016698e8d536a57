//! One mirror of one session. Dropping it ends the session's registrations at the node, in whichever way the session ended.

use std::sync::Arc;

use tokio::sync::watch;
use tonic::Status;
use weir_core::message::{FromNode as NodeSaid, NamesEdit, OpenId, ToNode};
use weir_core::mirror::MirrorFacts;
use weir_core::{GroupVersionResource, ResourceVersion};
use weir_proto::ProtocolError;
use weir_proto::session::{Attached, MirrorNumber, Names, Open, Said};

use crate::host::Hosted;
use crate::node::SessionId;
use crate::node::cell::{Outbox, Wake};

/// Registrations of one session on one mirror, and names in them. An event that concerns all of them has some 9 bytes for each
/// registration: 1.2 MB beside two objects of 3 MiB, less than a message may have. A name takes some 200 bytes: 26 MB.
const MAX_REGISTRATIONS: usize = 131_072;

/// A mirror that the session carries.
#[derive(Debug)]
pub(super) struct Carried {
    hosted: Arc<Hosted>,
    session: SessionId,
    outbox: Arc<Outbox>,
    facts: watch::Receiver<Option<Arc<MirrorFacts>>>,
    /// What was said last; `None` when the peer knows none.
    floor: Option<ResourceVersion>,
}

/// Why a registration breaks the session.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// It cannot be understood.
    #[error("open")]
    Interest(#[from] ProtocolError),
    /// The id is registered.
    #[error("open: id {} is in use", .0.0)]
    InUse(OpenId),
    /// The session has too many.
    #[error("more than {MAX_REGISTRATIONS} registrations and names of one mirror")]
    TooMany,
    /// Names of a registration that has none.
    #[error("names: id {} is no name set", .0.0)]
    NotNames(OpenId),
    /// A change was left out, or made twice.
    #[error("names: change {} of id {} where {} is the next", .edit.get(), .id.0, .next.get())]
    Edit {
        /// The registration.
        id: OpenId,
        /// The number that the change has.
        edit: NamesEdit,
        /// The number that it should have.
        next: NamesEdit,
    },
}

// === impl Carried ===

impl Carried {
    /// Begins, and what the peer is told of it first.
    pub(super) fn new(hosted: Arc<Hosted>, session: SessionId, wake: &Wake) -> (Self, Attached) {
        let mut facts = hosted.facts.clone();
        let attached = Attached {
            mirror: hosted.number,
            spec: (*hosted.spec).clone(),
            facts: facts.borrow_and_update().as_deref().cloned(),
            history: hosted.cell.history(),
        };
        let outbox = hosted.cell.attach(session, wake.clone());
        (Self { hosted, session, outbox, facts, floor: None }, attached)
    }

    pub(super) fn number(&self) -> MirrorNumber {
        self.hosted.number
    }

    pub(super) fn resource(&self) -> &GroupVersionResource {
        self.hosted.resource()
    }

    pub(super) fn hand(&self, message: ToNode) {
        self.hosted.cell.on_session(self.session, message);
    }

    /// Somebody waits for the frontier to come to `at`.
    pub(super) fn reach(&self, at: ResourceVersion) {
        self.outbox.reach(at);
    }

    pub(super) fn open(&self, open: Open) -> Result<(), OpenError> {
        let id = open.registration.id;
        let registered = self.hosted.cell.registered(self.session, id);
        if registered.has_id {
            return Err(OpenError::InUse(id));
        }
        if registered.count + open.names() >= MAX_REGISTRATIONS {
            return Err(OpenError::TooMany);
        }
        self.hand(open.resolve(self.hosted.spec.schema.table())?);
        Ok(())
    }

    /// Changes a name set. One that is gone crossed the news of its end.
    pub(super) fn change(&self, names: Names) -> Result<(), OpenError> {
        let (id, edit) = (names.registration.id, names.edit);
        let registered = self.hosted.cell.registered(self.session, id);
        if !registered.has_id {
            return Ok(());
        }
        let next = registered.next_edit.ok_or(OpenError::NotNames(id))?;
        if edit != next {
            return Err(OpenError::Edit { id, edit, next });
        }
        if registered.count + names.added.len() > MAX_REGISTRATIONS {
            return Err(OpenError::TooMany);
        }
        self.hand(ToNode::Names(names.resolve()));
        Ok(())
    }

    /// What was learned since the last time.
    pub(super) fn learned(&mut self) -> Option<MirrorFacts> {
        // A sender that is gone has nothing more to tell.
        if !self.facts.has_changed().unwrap_or(false) {
            return None;
        }
        self.facts.borrow_and_update().as_deref().cloned()
    }

    /// What the node has said since the last time, and behind it the floor where the peer knows none or it is time to look.
    pub(super) fn said(&mut self, looks_at_floor: bool) -> Vec<Said> {
        let mut said = Vec::new();
        for message in self.outbox.take() {
            if let NodeSaid::Restored { .. } | NodeSaid::History(_) = message {
                self.floor = None;
            }
            said.push(Said::Node(message));
        }
        if looks_at_floor || self.floor.is_none() {
            let floor = self.hosted.cell.window().map(|window| window.floor);
            if let Some(floor) = floor.filter(|floor| self.floor != Some(*floor)) {
                self.floor = Some(floor);
                said.push(Said::Floor(floor));
            }
        }
        said
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.hosted.cell.detach(self.session);
    }
}

// === impl OpenError ===

impl From<OpenError> for Status {
    fn from(error: OpenError) -> Self {
        let message = error.to_string();
        match error {
            OpenError::Interest(error) => error.into(),
            OpenError::InUse(_) | OpenError::NotNames(_) | OpenError::Edit { .. } => {
                Self::invalid_argument(message)
            }
            OpenError::TooMany => Self::resource_exhausted(message),
        }
    }
}
