//! The messages that travel by themselves, and the way of each from bytes to its strict twin and back.

use prost::Message;
use weir_core::object::ObjectSchema;
use weir_proto::feed::{FeedAnswer, Proof, Prove, Subscribe};
use weir_proto::read::{Count, CountAnswer, List, ListAnswer, Log, LogAnswer, WindowRequest, Windows};
use weir_proto::session::{FromNode, ToNode};
use weir_proto::{ProtocolError, wire};

/// A message, strictly.
#[derive(Clone, Debug)]
pub(crate) enum Any {
    Subscribe(Subscribe),
    FeedAnswer(FeedAnswer),
    Prove(Prove),
    Proof(Proof),
    ToNode(ToNode),
    FromNode(FromNode),
    List(List),
    ListAnswer(ListAnswer),
    Log(Log),
    LogAnswer(LogAnswer),
    Count(Count),
    CountAnswer(CountAnswer),
    WindowRequest(WindowRequest),
    Windows(Windows),
}

/// The names of all kinds, as in the `.proto` files.
pub(crate) const KINDS: [&str; 14] = [
    "Subscribe",
    "FeedAnswer",
    "Prove",
    "Proof",
    "ToNode",
    "FromNode",
    "List",
    "ListAnswer",
    "Log",
    "LogAnswer",
    "Count",
    "CountAnswer",
    "WindowRequest",
    "Windows",
];

impl Any {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Subscribe(_) => "Subscribe",
            Self::FeedAnswer(_) => "FeedAnswer",
            Self::Prove(_) => "Prove",
            Self::Proof(_) => "Proof",
            Self::ToNode(_) => "ToNode",
            Self::FromNode(_) => "FromNode",
            Self::List(_) => "List",
            Self::ListAnswer(_) => "ListAnswer",
            Self::Log(_) => "Log",
            Self::LogAnswer(_) => "LogAnswer",
            Self::Count(_) => "Count",
            Self::CountAnswer(_) => "CountAnswer",
            Self::WindowRequest(_) => "WindowRequest",
            Self::Windows(_) => "Windows",
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Subscribe(message) => wire::Subscribe::from(message).encode_to_vec(),
            Self::FeedAnswer(message) => wire::FeedAnswer::from(message).encode_to_vec(),
            Self::Prove(message) => wire::Prove::from(message).encode_to_vec(),
            Self::Proof(message) => wire::Proof::from(message).encode_to_vec(),
            Self::ToNode(message) => wire::ToNode::from(message).encode_to_vec(),
            Self::FromNode(message) => wire::FromNode::from(message).encode_to_vec(),
            Self::List(message) => wire::List::from(message).encode_to_vec(),
            Self::ListAnswer(message) => wire::ListAnswer::from(message).encode_to_vec(),
            Self::Log(message) => wire::Log::from(message).encode_to_vec(),
            Self::LogAnswer(message) => wire::LogAnswer::from(message).encode_to_vec(),
            Self::Count(message) => wire::Count::from(message).encode_to_vec(),
            Self::CountAnswer(message) => wire::CountAnswer::from(message).encode_to_vec(),
            Self::WindowRequest(message) => wire::WindowRequest::from(message).encode_to_vec(),
            Self::Windows(message) => wire::Windows::from(message).encode_to_vec(),
        }
    }

    pub(crate) fn read(kind: &str, bytes: &[u8]) -> Result<Self, ProtocolError> {
        let bare = ObjectSchema::bare();
        Ok(match kind {
            "Subscribe" => Self::Subscribe(wire::Subscribe::decode(bytes)?.try_into()?),
            "FeedAnswer" => Self::FeedAnswer(FeedAnswer::read(wire::FeedAnswer::decode(bytes)?, &bare)?),
            "Prove" => Self::Prove(wire::Prove::decode(bytes)?.try_into()?),
            "Proof" => Self::Proof(wire::Proof::decode(bytes)?.try_into()?),
            "ToNode" => Self::ToNode(wire::ToNode::decode(bytes)?.try_into()?),
            "FromNode" => Self::FromNode(FromNode::read(wire::FromNode::decode(bytes)?, &bare)?),
            "List" => Self::List(wire::List::decode(bytes)?.try_into()?),
            "ListAnswer" => Self::ListAnswer(ListAnswer::read(wire::ListAnswer::decode(bytes)?, &bare)?),
            "Log" => Self::Log(wire::Log::decode(bytes)?.try_into()?),
            "LogAnswer" => Self::LogAnswer(LogAnswer::read(wire::LogAnswer::decode(bytes)?, &bare)?),
            "Count" => Self::Count(wire::Count::decode(bytes)?.try_into()?),
            "CountAnswer" => Self::CountAnswer(wire::CountAnswer::decode(bytes)?.try_into()?),
            "WindowRequest" => Self::WindowRequest(wire::WindowRequest::decode(bytes)?.try_into()?),
            "Windows" => Self::Windows(wire::Windows::decode(bytes)?.try_into()?),
            other => panic!("no message is called {other}"),
        })
    }
}
