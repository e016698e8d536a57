//! The upstream as a whole: its instances and the configuration that leads to them. Cheap to clone; the connections of
//! all clones are shared.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use http::Uri;
use tracing::{info, warn};
use weir_daemon::Lifecycle;

use crate::{
    access::Access,
    addresses::Target,
    error::{ForwardError, LoadError},
    forward::Affinity,
    instance::Instance,
    kubeconfig::{self, ExportError, Origin},
    pool::Pool,
    strangers::Refused,
};

/// How often the addresses of the server are looked up again.
const LOOK_UP_EVERY: Duration = Duration::from_secs(30);

/// Where upstream is and how weir is let in.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// Where address, trust and credentials come from.
    pub origin: Origin,
    /// The instances by name. Without any, the addresses of the origin's server are the instances.
    pub urls: Vec<Uri>,
}

/// The kube-apiservers that weir stands in front of.
#[derive(Clone)]
pub struct Upstream(Arc<Shared>);

struct Shared {
    instances: ArcSwap<Vec<Arc<Instance>>>,
    access: Arc<Access>,
    refused: Refused,
    lifecycle: Lifecycle,
}

// === impl Upstream ===

impl Upstream {
    /// Reads the configuration. Connects to nothing, but runs the plugin of the user, if there is one. Must be called
    /// inside the runtime; what it opens later is spawned by `lifecycle`.
    pub async fn load(options: UpstreamOptions, lifecycle: &Lifecycle) -> Result<Self, LoadError> {
        let UpstreamOptions { origin, urls } = options;
        let config = origin.read().await?;
        if config.accept_invalid_certs {
            warn!("the kubeconfig turns off the check of upstream's certificate");
        }
        let server_name = config.tls_server_name.clone();
        let target = |url: &Uri| Target::new(url, server_name.as_deref());
        let server = if urls.is_empty() { Some(target(&config.cluster_url)?) } else { None };
        let named = urls.iter().map(target).collect::<Result<Vec<_>, _>>()?;
        let access = Arc::new(Access::new(origin, config).await?);
        let upstream = Self(Arc::new(Shared {
            instances: ArcSwap::default(),
            access,
            refused: Refused::default(),
            lifecycle: lifecycle.clone(),
        }));
        match server {
            Some(server) => {
                upstream.0.replace(look_up(&server).await.unwrap_or_else(|| vec![server.clone()]));
                upstream.follow_addresses(server);
            }
            None => upstream.0.replace(named),
        }
        upstream.close_pools_at_stop();
        Ok(upstream)
    }

    /// The instances known now, in a stable order. Never empty.
    pub fn instances(&self) -> Arc<Vec<Arc<Instance>>> {
        self.0.instances.load_full()
    }

    /// Whether an error says that upstream cannot be reached, and not only that one request has no answer: callers can bring
    /// that about for their own.
    pub fn is_away(&self, error: &ForwardError) -> bool {
        match error {
            ForwardError::Unreachable(error) => error.is_outage(),
            ForwardError::Broken(_) | ForwardError::Timeout => {
                self.instances().iter().all(|instance| instance.is_suspect())
            }
            ForwardError::Malformed(_) | ForwardError::Answer(_) => false,
        }
    }

    /// Whether weir itself shows a client certificate to upstream.
    pub fn has_client_certificate(&self) -> bool {
        self.0.access.has_client_certificate()
    }

    /// A kubeconfig for clients of weir at `server`: the user of weir's own, and `ca_pem` to trust.
    pub fn export_kubeconfig(&self, server: &str, ca_pem: Option<&str>) -> Result<String, ExportError> {
        if self.has_client_certificate() && !self.is_front_proxy() {
            return Err(ExportError::ClientCertificate);
        }
        kubeconfig::export(server, ca_pem, self.0.access.user())
    }

    /// What weir shows.
    pub(crate) fn access(&self) -> &Access {
        &self.0.access
    }

    /// The credentials that upstream does not know.
    pub(crate) fn refused(&self) -> &Refused {
        &self.0.refused
    }

    /// The instances in the order in which a request tries them: those of its affinity first, suspects last.
    pub(crate) fn order(&self, affinity: Affinity) -> Vec<Arc<Instance>> {
        let mut order = self.0.instances.load().as_ref().clone();
        if !order.is_empty() {
            let start = affinity.0 % order.len() as u64;
            order.rotate_left(usize::try_from(start).unwrap_or(0));
        }
        order.sort_by_key(|instance| instance.is_suspect());
        order
    }

    /// The task ends when the process stops, or with the last clone of this.
    fn follow_addresses(&self, server: Target) {
        if server.host.parse::<std::net::IpAddr>().is_ok() {
            return;
        }
        let shared = Arc::downgrade(&self.0);
        let stop = self.0.lifecycle.token().clone();
        self.0.lifecycle.spawn("upstream addresses", async move {
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(LOOK_UP_EVERY) => {}
                }
                let found = look_up(&server).await;
                let Some(shared) = Weak::upgrade(&shared) else { return };
                if let Some(targets) = found {
                    shared.replace(targets);
                }
            }
        });
    }

    /// Idle connections would keep their tasks, and so the stopping process, for nothing.
    fn close_pools_at_stop(&self) {
        let shared = Arc::downgrade(&self.0);
        let stop = self.0.lifecycle.token().clone();
        self.0.lifecycle.spawn("upstream pools", async move {
            stop.cancelled().await;
            let Some(shared) = Weak::upgrade(&shared) else { return };
            for instance in shared.instances.load().iter() {
                [&instance.pool, &instance.front, &instance.own].into_iter().for_each(Pool::close);
            }
        });
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("instances", &self.0.instances.load()).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    /// Instances that stay keep their connections.
    fn replace(&self, targets: Vec<Target>) {
        let known = self.instances.load();
        if !known.is_empty() && known.iter().map(|instance| &instance.target).eq(targets.iter()) {
            return;
        }
        info!(instances = ?targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), "upstream");
        let keep = |target: Target| {
            let kept = known.iter().find(|instance| instance.target == target);
            kept.cloned().unwrap_or_else(|| {
                Arc::new(Instance::new(target, Arc::clone(&self.access), self.lifecycle.clone()))
            })
        };
        self.instances.store(Arc::new(targets.into_iter().map(keep).collect()));
    }
}

async fn look_up(server: &Target) -> Option<Vec<Target>> {
    match server.resolve().await {
        Ok(addresses) => Some(server.clone().spread(&addresses)),
        Err(error) => {
            warn!(host = server.host, %error, "cannot look up upstream");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(url: &str, addresses: &[&str]) -> Vec<Target> {
        let addresses: Vec<_> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Target::new(&url.parse().unwrap(), None).unwrap().spread(&addresses)
    }

    fn names(upstream: &Upstream) -> Vec<String> {
        upstream.instances().iter().map(|instance| instance.name().to_owned()).collect()
    }

    async fn named(urls: &[&str]) -> Upstream {
        let urls = urls.iter().map(|url| url.parse().unwrap()).collect();
        Upstream::load(UpstreamOptions { origin: Origin::Nothing, urls }, &Lifecycle::new()).await.unwrap()
    }

    #[tokio::test]
    async fn named_instances_keep_their_order() {
        let upstream = named(&["https://b:6443", "https://a:6443"]).await;
        assert_eq!(names(&upstream), ["b:6443", "a:6443"]);
    }

    #[tokio::test]
    async fn an_address_that_stays_is_the_same_instance_after_a_look_up() {
        let upstream = named(&["https://x"]).await;
        upstream.0.replace(targets("https://api.example", &["10.0.0.1:443", "10.0.0.2:443"]));
        let before = upstream.instances();
        upstream.0.replace(targets("https://api.example", &["10.0.0.2:443", "10.0.0.3:443"]));
        let after = upstream.instances();
        assert_eq!(names(&upstream), ["10.0.0.2:443", "10.0.0.3:443"]);
        assert!(Arc::ptr_eq(&before[1], &after[0]));
        upstream.0.replace(targets("https://api.example", &["10.0.0.3:443", "10.0.0.2:443"]));
        assert!(Arc::ptr_eq(&after, &upstream.instances()), "nothing changed");
    }

    #[tokio::test]
    async fn nothing_to_connect_to_is_refused() {
        let options = UpstreamOptions { origin: Origin::Nothing, urls: Vec::new() };
        let error = Upstream::load(options, &Lifecycle::new()).await.unwrap_err();
        assert!(matches!(error, LoadError::Url { .. }), "{error}");
    }
}
