//! Options of who may read what, and what is made of them.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use weir_proxy::audited::Audited;
use weir_proxy::auth::{Authorizer, RbacReader, Rechecks, StandingLimits};
use weir_upstream::Upstream;

use crate::duration;
use crate::process::Process;

/// How the rights of clients are looked after.
#[derive(Clone, Debug, Args)]
pub(crate) struct RightsArguments {
    /// How many reviews a second are asked again for open watches, in each process. Distinct questions divided by this is how
    /// long it takes to notice a lost right; those that a change of RBAC names are asked first.
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) recheck_rate: NonZeroU32,
    /// How long an open watch goes on while upstream does not say whether its client still may.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    pub(crate) recheck_limit: Duration,
}

// === impl RightsArguments ===

impl RightsArguments {
    /// What judges callers, and the tasks that do it again.
    pub(crate) fn authorizer(&self, process: &Process, upstream: &Upstream, audited: Audited) -> Authorizer {
        let limits = StandingLimits { unanswered: self.recheck_limit, ..StandingLimits::default() };
        let authorizer = Authorizer::new(upstream.clone()).rechecked(limits).explaining(audited);
        process.metrics.with_registry(|registry| authorizer.register(registry));
        let rechecks = Rechecks::new(authorizer.clone(), self.recheck_rate).run();
        let rbac = RbacReader::new(upstream.clone(), authorizer.clone()).run();
        let stop = process.lifecycle.token();
        let both = Box::pin(async { tokio::join!(rechecks, rbac) });
        let until_stop = stop.clone().run_until_cancelled_owned(both);
        process.lifecycle.spawn("rights", async move {
            Box::pin(until_stop).await;
        });
        authorizer
    }
}
