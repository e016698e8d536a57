//! Client HTTP: connections, the way of a request, and the bodies of lists and watches. A request is answered from a mirror
//! or passed through; which of the two is decided in [`answer`], before anything is sent.

pub mod answer;
pub mod body;
pub mod clients;
pub mod entrance;
pub mod fail;
pub mod fresh;
pub mod gate;
pub mod get;
mod idle;
pub mod initial;
mod line;
pub mod list;
pub mod list_body;
pub mod pages;
mod passed_watch;
pub mod pretty;
mod reading;
pub mod request;
pub mod server;
mod ticking;
pub mod trail;
pub mod watch;
pub mod watch_body;
