//! The sessions of one mirror: what each was told last, and the credit of its registrations. A node sends an event only
//! within credit; out of it the registration ends in the same step, in order, and the store goes on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_core::message::{Change, Credit, Delivery, EventKind, FromNode, Open, OpenId};
use weir_core::statement::{SourceId, Statement};
use weir_core::{History, Object, ResourceVersion};

use super::{Hit, Outgoing, Registered, SessionId};

/// What one session has.
#[derive(Debug)]
struct Session {
    /// The end of the last statement said.
    said: ResourceVersion,
    accounts: HashMap<OpenId, Account>,
    /// Registrations, and names in them.
    count: usize,
}

/// What one registration may be sent, and how many names it has.
#[derive(Debug)]
struct Account {
    credit: Credit,
    names: usize,
}

/// All sessions of one mirror on this node.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeMap<SessionId, Session>);

/// The events of one statement from the feed, by session.
#[derive(Debug)]
pub(super) struct Batch {
    source: SourceId,
    to: ResourceVersion,
    deliveries: BTreeMap<SessionId, Vec<Delivery>>,
    left: Vec<(SessionId, OpenId, ResourceVersion)>,
}

// === impl Batch ===

impl Batch {
    pub(super) fn new(source: SourceId, to: ResourceVersion) -> Self {
        Self { source, to, deliveries: BTreeMap::new(), left: Vec::new() }
    }
}

// === impl Sessions ===

impl Sessions {
    pub(super) fn attach(&mut self, session: SessionId, at: ResourceVersion) {
        self.0.insert(session, Session { said: at, accounts: HashMap::new(), count: 0 });
    }

    pub(super) fn detach(&mut self, session: SessionId) {
        self.0.remove(&session);
    }

    pub(super) fn registered(&self, session: SessionId, id: OpenId) -> Registered {
        let session = self.0.get(&session);
        Registered {
            count: session.map_or(0, |session| session.count),
            has_id: session.is_some_and(|session| session.accounts.contains_key(&id)),
            next_edit: None,
        }
    }

    /// Whether the session is there and the id is new to it.
    pub(super) fn open(&mut self, session: SessionId, open: &Open) -> bool {
        let Some(session) = self.0.get_mut(&session) else { return false };
        if session.accounts.contains_key(&open.id) {
            return false;
        }
        session.accounts.insert(open.id, Account { credit: open.credit, names: 0 });
        session.count += 1;
        true
    }

    /// A registration has so many names from now on.
    pub(super) fn weigh(&mut self, session: SessionId, id: OpenId, names: usize) {
        let Some(session) = self.0.get_mut(&session) else { return };
        if let Some(account) = session.accounts.get_mut(&id) {
            session.count += names;
            session.count -= std::mem::replace(&mut account.names, names);
        }
    }

    pub(super) fn close(&mut self, session: SessionId, id: OpenId) -> bool {
        self.0.get_mut(&session).is_some_and(|session| session.end(id))
    }

    pub(super) fn grant(&mut self, session: SessionId, id: OpenId, more: Credit) {
        if let Some(account) = self.0.get_mut(&session).and_then(|session| session.accounts.get_mut(&id)) {
            account.credit.0 = account.credit.0.saturating_add(more.0);
        }
    }

    /// Adds an event to the batch. True when the registration had no credit left for it and ended.
    pub(super) fn say(
        &mut self,
        hit: &Hit,
        (change, gone): (&Change, Option<Arc<Object>>),
        batch: &mut Batch,
    ) -> bool {
        let Some(session) = self.0.get_mut(&hit.session) else { return true };
        let Some(Account { credit, .. }) = session.accounts.get_mut(&hit.id) else { return true };
        if credit.0 == 0 {
            session.end(hit.id);
            let said = batch.deliveries.get(&hit.session).into_iter().flatten().rev();
            let last = said.map(|delivery| delivery.rv).find(|rv| *rv < change.rv).unwrap_or(session.said);
            batch.left.push((hit.session, hit.id, last));
            return true;
        }
        credit.0 -= 1;
        let deliveries = batch.deliveries.entry(hit.session).or_default();
        if deliveries.last().is_none_or(|delivery| delivery.rv != change.rv) {
            deliveries.push(Delivery { rv: change.rv, present: None, gone: None, tags: Vec::new() });
        }
        if let Some(delivery) = deliveries.last_mut() {
            match hit.kind {
                EventKind::Deleted => delivery.gone = gone,
                EventKind::Added | EventKind::Modified => delivery.present = Some(change.object.clone()),
            }
            delivery.tags.push((hit.id, hit.kind));
        }
        false
    }

    /// Says the batch to every session. What ended for want of credit is told before the frontier that no longer counts
    /// for it.
    pub(super) fn finish(&mut self, mut batch: Batch) -> Vec<Outgoing> {
        let mut outgoing = Vec::with_capacity(self.0.len());
        for (id, session) in &mut self.0 {
            let mut deliveries = batch.deliveries.remove(id).unwrap_or_default();
            for (_, open, at) in batch.left.iter().filter(|(of, _, _)| of == id) {
                let rest = deliveries.partition_point(|delivery| delivery.rv <= *at);
                let later = deliveries.split_off(rest);
                outgoing.extend(
                    session
                        .say(batch.source, *at, std::mem::replace(&mut deliveries, later))
                        .map(|said| (*id, said)),
                );
                outgoing.push((*id, FromNode::Left { id: *open, at: *at }));
            }
            outgoing.extend(session.say(batch.source, batch.to, deliveries).map(|said| (*id, said)));
        }
        outgoing
    }

    /// A list was installed at `at`: every registration ends, the frontier goes on.
    pub(super) fn end_all(&mut self, source: SourceId, at: ResourceVersion) -> Vec<Outgoing> {
        let mut outgoing = Vec::new();
        for (id, session) in &mut self.0 {
            let mut ended: Vec<_> = session.end_all().collect();
            ended.sort_unstable();
            outgoing.extend(ended.into_iter().map(|open| (*id, FromNode::TooOld(open))));
            outgoing.extend(session.say(source, at, Vec::new()).map(|said| (*id, said)));
        }
        outgoing
    }

    /// Upstream's history went back: every registration ends and the frontier begins anew.
    pub(super) fn restored(&mut self, highest: ResourceVersion, history: History) -> Vec<Outgoing> {
        let restored = self.0.iter_mut().map(|(id, session)| {
            drop(session.end_all());
            session.said = ResourceVersion::ZERO;
            (*id, FromNode::Restored { highest, history })
        });
        restored.collect()
    }

    /// The same for every session.
    pub(super) fn tell(&self, message: impl Fn() -> FromNode) -> Vec<Outgoing> {
        self.0.keys().map(|id| (*id, message())).collect()
    }
}

// === impl Session ===

impl Session {
    fn end(&mut self, id: OpenId) -> bool {
        let ended = self.accounts.remove(&id);
        self.count -= ended.as_ref().map_or(0, |account| 1 + account.names);
        ended.is_some()
    }

    fn end_all(&mut self) -> impl Iterator<Item = OpenId> + '_ {
        self.count = 0;
        self.accounts.drain().map(|(id, _)| id)
    }

    /// A statement from where the last one ended; nothing where it would say nothing.
    fn say(&mut self, source: SourceId, to: ResourceVersion, deliveries: Vec<Delivery>) -> Option<FromNode> {
        if to <= self.said {
            return None;
        }
        let after = std::mem::replace(&mut self.said, to);
        let said =
            Statement::new(source, after, to, deliveries).expect("a store applies changes in rising order");
        Some(FromNode::Said(said))
    }
}
