//! Options of what is told to auditors, and what is made of them. Their names are kube-apiserver's.

use std::path::PathBuf;

use clap::Args;
use weir_proxy::audit::file::{FileOptions, LogFile};
use weir_proxy::audit::webhook::Webhook;
use weir_proxy::audit::{Audit, Sink};
use weir_proxy::audited::Audited;
use weir_upstream::{Origin, Upstream, UpstreamOptions};

use crate::fault::Fault;
use crate::process::Process;

/// Where audit events go, and of which answers.
#[derive(Clone, Debug, Args)]
pub(crate) struct AuditArguments {
    /// Of which mirrored resources the answers are audited, where there is a file or a webhook; * is all.
    #[arg(long, value_name = "RESOURCE,…", value_delimiter = ',', default_value = "secrets")]
    audit: Vec<String>,
    /// A file for audit events (audit.k8s.io/v1, Metadata), one a line.
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// How large this file gets before it is put aside, in megabytes.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    audit_log_maxsize: u32,
    /// How many of those put aside are kept; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    audit_log_maxbackup: usize,
    /// A kubeconfig whose server takes audit events in lists.
    #[arg(long, value_name = "FILE")]
    audit_webhook_config_file: Option<PathBuf>,
}

// === impl AuditArguments ===

impl AuditArguments {
    /// Whether anything is audited.
    pub(crate) fn has_sink(&self) -> bool {
        self.audit_log_path.is_some() || self.audit_webhook_config_file.is_some()
    }

    /// Of what.
    pub(crate) fn audited(&self) -> Audited {
        Audited::of(&self.audit)
    }

    /// Opens the file, finds the webhook, and starts the tasks that write to them.
    pub(crate) async fn start(&self, process: &Process) -> Result<Audit, Fault> {
        let (lifecycle, mut sinks) = (&process.lifecycle, Vec::new());
        if let Some(path) = &self.audit_log_path {
            let options = FileOptions {
                path: path.clone(),
                max_bytes: u64::from(self.audit_log_maxsize) << 20,
                max_backups: self.audit_log_maxbackup,
            };
            let file = LogFile::open(options).map_err(|error| Fault::usage("--audit-log-path", error))?;
            let (sink, source) = Sink::new("file");
            sinks.push(sink);
            lifecycle.spawn("audit file", file.run(source, lifecycle.token().clone()));
        }
        if let Some(path) = &self.audit_webhook_config_file {
            let origin = Origin::Kubeconfig { path: Some(path.clone()), context: None };
            let to = Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, lifecycle).await;
            let to = to.map_err(|error| Fault::usage("--audit-webhook-config-file", error))?;
            let (sink, source) = Sink::new("webhook");
            sinks.push(sink);
            lifecycle.spawn("audit webhook", Webhook::new(to).run(source, lifecycle.token().clone()));
        }
        let audit = Audit::new(self.audited(), sinks);
        process.metrics.with_registry(|registry| audit.register(registry));
        Ok(audit)
    }
}
