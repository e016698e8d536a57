//! The HTTP side of the simulated apiserver. Everything that decides an answer is in the plain types beside it; here
//! requests are read, waited for, and written out.

mod access;
mod body;
mod discovery;
mod exchange;
mod form;
mod objects;
mod openapi;
mod reads;
mod respond;
mod reviews;
mod route;
mod server;
mod streams;

pub use server::{Handle, Listen};
