//! Sizes that both ends of a connection set. A receiver's setting limits what a sender may do, so one end alone gains
//! nothing.

/// HTTP/2 `max_frame_size` of every connection between weir's processes, set where a listener or a connection is made, on
/// both ends: four times HTTP/2's own default carries batches of 60 KB in one frame.
pub const MAX_FRAME_BYTES: u32 = 64 << 10;

/// HTTP/2 window of one stream: less than 1 MiB halves the throughput of bulk.
pub const STREAM_WINDOW_BYTES: u32 = 2 << 20;

/// HTTP/2 window of a connection. Live and bulk have connections of their own, so a reader that stops holds back only its
/// own kind.
pub const CONNECTION_WINDOW_BYTES: u32 = 5 << 20;

/// A sender begins another message once the objects of one reach this many bytes. A single object may be larger.
pub const BATCH_BYTES: usize = 256 << 10;

/// `max_decoding_message_size` of every client and server. A batch is at most [`BATCH_BYTES`] and one more event, which has
/// two objects of up to 3 MiB, what upstream accepts in a request.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;
