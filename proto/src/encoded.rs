//! A message that is encoded once and sent to many peers. Encoding a batch costs more than all else that sending it costs;
//! whoever has one batch for several subscribers calls [`Encoded::once`] and clones.
//!
//! The bytes are still copied into each connection's buffer: once, and nothing is looked at.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::error::ProtocolError;

/// A message, or its bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Encoded<M> {
    /// Not encoded yet, or just received.
    Message(M),
    /// The bytes of a whole message.
    Bytes(Bytes),
}

/// What [`WireCodec`] can carry.
pub trait Frame: Sized + Send + 'static {
    /// Writes the whole.
    fn write(&self, to: &mut impl BufMut) -> Result<(), prost::EncodeError>;

    /// Reads the whole.
    fn read(from: &mut impl Buf) -> Result<Self, ProtocolError>;
}

/// The codec of all methods: protobuf, with messages that are encoded already passed through.
#[derive(Clone, Copy, Debug)]
pub struct WireCodec<E, D>(PhantomData<fn(E) -> D>);

/// One direction of [`WireCodec`].
#[derive(Clone, Copy, Debug)]
pub struct OneWay<T>(PhantomData<fn(T) -> T>);

// === impl Encoded ===

impl<M: Message + Default> Encoded<M> {
    /// Encodes now, so that clones need not.
    pub fn once(message: &M) -> Self {
        Self::Bytes(message.encode_to_vec().into())
    }

    /// How many bytes are sent.
    pub fn size(&self) -> usize {
        match self {
            Self::Message(message) => message.encoded_len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// The message; of one that was received it is there already.
    pub fn open(self) -> Result<M, ProtocolError> {
        match self {
            Self::Message(message) => Ok(message),
            Self::Bytes(bytes) => Ok(M::decode(bytes)?),
        }
    }
}

// === impl Frame ===

impl<M: Message + Default + 'static> Frame for M {
    fn write(&self, to: &mut impl BufMut) -> Result<(), prost::EncodeError> {
        self.encode(to)
    }

    fn read(from: &mut impl Buf) -> Result<Self, ProtocolError> {
        Ok(M::decode(from)?)
    }
}

impl<M: Message + Default + 'static> Frame for Encoded<M> {
    fn write(&self, to: &mut impl BufMut) -> Result<(), prost::EncodeError> {
        match self {
            Self::Message(message) => message.encode(to),
            Self::Bytes(bytes) => {
                to.put_slice(bytes);
                Ok(())
            }
        }
    }

    fn read(from: &mut impl Buf) -> Result<Self, ProtocolError> {
        Ok(Self::Message(M::decode(from)?))
    }
}

// === impl WireCodec ===

impl<E, D> Default for WireCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: Frame, D: Frame> Codec for WireCodec<E, D> {
    type Encode = E;
    type Decode = D;
    type Encoder = OneWay<E>;
    type Decoder = OneWay<D>;

    fn encoder(&mut self) -> OneWay<E> {
        OneWay(PhantomData)
    }

    fn decoder(&mut self) -> OneWay<D> {
        OneWay(PhantomData)
    }
}

// === impl OneWay ===

impl<T: Frame> Encoder for OneWay<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.write(to).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<T: Frame> Decoder for OneWay<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        Ok(Some(T::read(from)?))
    }
}
