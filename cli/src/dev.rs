//! `weir dev`: the same as `weir serve`, in front of the embedded simulated apiserver.

use clap::Args;

use crate::fault::Fault;
use crate::process::ListenArguments;

/// Arguments of `weir dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArguments {
    #[command(flatten)]
    listen: ListenArguments,
}

/// Serves until told to stop.
pub(crate) async fn dev(arguments: DevArguments) -> Result<(), Fault> {
    let _ = arguments;
    Err(Fault::Usage("not there".to_owned()))
}
