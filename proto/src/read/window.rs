//! What a node can answer. A window may have moved when its answer arrives, so it chooses whom to ask and proves nothing.

use weir_core::statement::SourceId;
use weir_core::window::Window;
use weir_core::{GroupVersionResource, History, SlotSet};

use crate::error::ProtocolError;
use crate::hello::{Spoken, greeted};
use crate::parts::{all, mirror, slots};
use crate::wire;

/// Asks what a node can answer of some mirrors; of all that it has, if none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRequest(pub Vec<GroupVersionResource>);

/// What a node can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// What it holds.
    pub slots: SlotSet,
    /// Its mirrors.
    pub mirrors: Vec<MirrorWindow>,
}

/// What a node can answer of one mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorWindow {
    /// Which one.
    pub mirror: GroupVersionResource,
    /// Who vouched last; 0 where nobody has.
    pub source: SourceId,
    /// `None` while it holds nothing of it.
    pub window: Option<Window>,
    /// The history that it knows of.
    pub history: History,
}

// === impl WindowRequest, Windows ===

impl From<&WindowRequest> for wire::WindowRequest {
    fn from(WindowRequest(mirrors): &WindowRequest) -> Self {
        Self { hello: Some(Spoken::OURS.hello()), mirrors: mirrors.iter().map(wire::Mirror::from).collect() }
    }
}

impl TryFrom<wire::WindowRequest> for WindowRequest {
    type Error = ProtocolError;

    fn try_from(request: wire::WindowRequest) -> Result<Self, ProtocolError> {
        greeted(request.hello)?;
        Ok(Self(all(request.mirrors, GroupVersionResource::try_from)?))
    }
}

impl From<&Windows> for wire::Windows {
    fn from(Windows { slots, mirrors }: &Windows) -> Self {
        let mirror = |MirrorWindow { mirror, source, window, history }: &MirrorWindow| wire::MirrorWindow {
            mirror: Some(mirror.into()),
            source: source.0,
            window: window.as_ref().map(wire::Window::from),
            history: history.get(),
        };
        Self { slots: Some(slots.into()), mirrors: mirrors.iter().map(mirror).collect() }
    }
}

impl TryFrom<wire::Windows> for Windows {
    type Error = ProtocolError;

    fn try_from(windows: wire::Windows) -> Result<Self, ProtocolError> {
        let of = |of: wire::MirrorWindow| {
            Ok(MirrorWindow {
                mirror: mirror(of.mirror)?,
                source: SourceId(of.source),
                window: of.window.map(Window::try_from).transpose()?,
                history: History::new(of.history),
            })
        };
        Ok(Self { slots: slots(windows.slots)?, mirrors: all(windows.mirrors, of)? })
    }
}
