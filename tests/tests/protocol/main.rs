//! The traces that showed why the protocol's rules are needed, one test each, played step by step with the real types. A
//! test's name begins with the number of its trace.

mod copies;
mod credit;
mod failover;
mod feeds;
mod holding;
mod joining;
mod lists;
mod script;
