//! What is wrong with a message. It is always the sender's fault: an answer that a node cannot give is no error of this
//! kind but a message of its own, `Unanswered`.

use tonic::Status;

/// A message that breaks the protocol. Fields are named as in the `.proto` files.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProtocolError {
    /// A field that must be set is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field has a value that it cannot have.
    #[error("{0} is invalid")]
    Invalid(&'static str),
    /// The bytes are not those of the message.
    #[error("undecodable message")]
    Undecodable(#[from] prost::DecodeError),
    /// There is no protocol that both speak.
    #[error("the peer speaks protocols {oldest} to {newest}, this process none of them")]
    Version {
        /// The oldest that the peer speaks.
        oldest: u32,
        /// The newest that the peer speaks.
        newest: u32,
    },
}

impl From<ProtocolError> for Status {
    fn from(error: ProtocolError) -> Self {
        let message = error.to_string();
        match error {
            ProtocolError::Missing(_) | ProtocolError::Invalid(_) | ProtocolError::Undecodable(_) => {
                Self::invalid_argument(message)
            }
            ProtocolError::Version { .. } => Self::failed_precondition(message),
        }
    }
}
