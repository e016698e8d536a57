//! `weir certs`: a CA of weir's own processes and their certificates, for a trial. In earnest they come from whatever issues
//! certificates in the cluster, with the same names.

use std::path::PathBuf;

use clap::Args;
use weir_daemon::peer::certs;

use crate::fault::Fault;

/// Arguments of `weir certs`.
#[derive(Debug, Args)]
pub(crate) struct CertsArguments {
    /// Where to write ca.crt, proxy.crt, shard-0.crt, … and their keys.
    #[arg(long, value_name = "DIRECTORY")]
    out: PathBuf,
    /// In how many shards the space is cut: each has a certificate, which its replicas share.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
}

/// Writes the files.
pub(crate) fn certs(arguments: &CertsArguments) -> Result<(), Fault> {
    let CertsArguments { out, shards } = arguments;
    certs::write_trial(out, usize::from(*shards)).map_err(|error| Fault::usage("--out", error))
}
