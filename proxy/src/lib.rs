//! shards, merge, hub, HTTP, authorization and passthrough.
