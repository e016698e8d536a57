//! Tests of joining, credit and merging, message by message.
