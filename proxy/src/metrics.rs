//! What operators see of a proxy's nodes and mirrors, read when somebody asks and not before.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::mirror::registry::Mirrors;
use crate::peers::Peers;

/// The sessions with shard nodes.
#[derive(Debug)]
pub struct PeerMetrics(pub Arc<Peers>);

/// The mirrors.
#[derive(Debug)]
pub struct MirrorMetrics(pub Arc<Mirrors>);

// === impl PeerMetrics ===

impl Collector for PeerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(peers) = self;
        gauge(&mut encoder, ("sessions_up", "Sessions with shard nodes that stand"), peers.sessions_up())?;
        gauge(&mut encoder, ("holes", "Shards that no connected node holds"), peers.holes().len())?;
        let lost = ("sessions_lost", "Sessions with shard nodes that broke or were left");
        counter(&mut encoder, lost, peers.sessions_lost())
    }
}

// === impl MirrorMetrics ===

impl Collector for MirrorMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ready = self.0.ready();
        gauge(&mut encoder, ("mirrors_ready", "Mirrors that answer"), ready.len())?;
        let interests = ready.iter().map(|mirror| mirror.fanout().interests()).sum();
        gauge(&mut encoder, ("interests", "Distinct interests that clients watch"), interests)?;
        let moves = ready.iter().map(|mirror| mirror.fanout().moves()).sum();
        counter(&mut encoder, ("failovers", "How often a shard of a mirror went on at another node"), moves)
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    value: usize,
) -> Result<(), fmt::Error> {
    let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    value: u64,
) -> Result<(), fmt::Error> {
    let metric = ConstCounter::new(value);
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
