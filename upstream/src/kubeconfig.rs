//! Where the configuration comes from, and the kubeconfig that weir writes for its own clients. kube does the reading;
//! what it reads and weir cannot honour is refused here, never ignored.

use std::path::PathBuf;

use kube::{
    Config,
    config::{
        AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo,
        NamedCluster, NamedContext,
    },
};

use crate::error::LoadError;

/// The name of cluster, user and context in a written kubeconfig.
const NAME: &str = "weir";

/// Where address, trust and credentials come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A kubeconfig.
    Kubeconfig {
        /// The file; without one `$KUBECONFIG`, else `~/.kube/config`.
        path: Option<PathBuf>,
        /// Another context than the current one.
        context: Option<String>,
    },
    /// The service account of the pod.
    InCluster,
    /// No credentials, and the system's trust. Upstreams must be named.
    Nothing,
}

/// Why no kubeconfig can be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Clients would have to show a certificate to weir, which is no front proxy and cannot pass it on.
    #[error(
        "the user of the kubeconfig has a client certificate, which weir cannot forward unless it is a front proxy: \
         use one with a token"
    )]
    ClientCertificate,
    /// It cannot be written down.
    #[error("the kubeconfig cannot be written")]
    Encode(#[from] serde_json::Error),
}

// === impl Origin ===

impl Origin {
    pub(crate) async fn read(&self) -> Result<Config, LoadError> {
        match self {
            Self::Kubeconfig { path, context } => read_kubeconfig(path.clone(), context.clone()).await,
            Self::InCluster => Config::incluster().map_err(|source| LoadError::InCluster(Box::new(source))),
            Self::Nothing => Ok(Config::new(http::Uri::default())),
        }
    }
}

async fn read_kubeconfig(path: Option<PathBuf>, context: Option<String>) -> Result<Config, LoadError> {
    let file = path.clone();
    let fail =
        |source: KubeconfigError| LoadError::Kubeconfig { path: path.clone(), source: Box::new(source) };
    let kubeconfig = tokio::task::spawn_blocking(move || match file {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    })
    .await
    .map_err(LoadError::Interrupted)?
    .map_err(fail)?;
    if chosen_cluster(&kubeconfig, context.as_deref()).is_some_and(has_proxy) {
        return Err(LoadError::ProxyUrl);
    }
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(fail)
}

/// The cluster's own setting only: kube's view of it also takes HTTPS_PROXY, which weir leaves alone.
fn has_proxy(cluster: &Cluster) -> bool {
    cluster.proxy_url.as_deref().is_some_and(|url| !url.is_empty())
}

fn chosen_cluster<'a>(kubeconfig: &'a Kubeconfig, context: Option<&str>) -> Option<&'a Cluster> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|entry| entry.name == name)?.context.as_ref()?;
    kubeconfig.clusters.iter().find(|entry| entry.name == context.cluster)?.cluster.as_ref()
}

/// A kubeconfig for clients of weir: the given user in front of another server. It is JSON, which is YAML too.
pub(crate) fn export(server: &str, ca_pem: Option<&str>, user: AuthInfo) -> Result<String, ExportError> {
    let cluster = Cluster {
        server: Some(server.to_owned()),
        certificate_authority_data: ca_pem.map(|pem| base64(pem.as_bytes())),
        ..Cluster::default()
    };
    let context = Context { cluster: NAME.to_owned(), user: Some(NAME.to_owned()), ..Context::default() };
    let kubeconfig = Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        current_context: Some(NAME.to_owned()),
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        ..Kubeconfig::default()
    };
    Ok(serde_json::to_string_pretty(&kubeconfig)?)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
