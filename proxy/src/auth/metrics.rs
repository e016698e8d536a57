//! How decisions about callers come about, and how the rights of those whose answers go on are looked after.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::decisions::Reviewed;
use super::standings::{Lost, Standings};

/// How a request came to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Upstream was asked.
    Asked,
    /// It had said so a moment ago.
    Remembered,
    /// Somebody else was asking already.
    Shared,
    /// It had said so minutes ago and cannot be reached now.
    Grace,
    /// It cannot be reached, and has said nothing that still counts.
    Unreachable,
    /// It is there and gave no decision.
    Undecided,
}

/// Counts decisions. Clones count together.
#[derive(Clone, Debug)]
pub struct DecisionMetrics {
    family: Family<[(&'static str, &'static str); 1], Counter>,
    /// Those of the family in the order of [`How`]: counted for every request, so not looked up each time.
    counters: [Counter; 6],
}

/// Counts what comes of asking again. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct RecheckMetrics {
    asked: Family<[(&'static str, &'static str); 1], Counter>,
    ended: Family<[(&'static str, &'static str); 1], Counter>,
    /// How many of the kinds that give rights are watched.
    pub(super) kinds: Gauge,
    /// Reviews a second; 0 while nothing is asked again.
    rate: Arc<AtomicU32>,
}

/// What stands, read when somebody asks.
#[derive(Debug)]
struct StandingMetrics {
    standings: Arc<Standings>,
    rate: Arc<AtomicU32>,
}

// === impl How ===

impl How {
    const ALL: [Self; 6] =
        [Self::Asked, Self::Remembered, Self::Shared, Self::Grace, Self::Unreachable, Self::Undecided];

    fn word(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Remembered => "remembered",
            Self::Shared => "shared",
            Self::Grace => "grace",
            Self::Unreachable => "unreachable",
            Self::Undecided => "undecided",
        }
    }
}

// === impl DecisionMetrics ===

impl DecisionMetrics {
    /// Shows the numbers.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "decisions",
            "Requests by how it came to a decision about their callers; grace, unreachable and undecided come beside asked or shared where somebody asked",
            self.family.clone(),
        );
    }

    pub(super) fn count(&self, how: How) {
        self.counters[how as usize].inc();
    }

    #[cfg(test)]
    pub(super) fn get(&self, how: How) -> u64 {
        self.counters[how as usize].get()
    }
}

impl Default for DecisionMetrics {
    fn default() -> Self {
        let family = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let counters = How::ALL.map(|how| family.get_or_create(&[("how", how.word())]).clone());
        Self { family, counters }
    }
}

// === impl RecheckMetrics ===

impl RecheckMetrics {
    /// Shows the numbers.
    pub(super) fn register(&self, standings: &Arc<Standings>, registry: &mut Registry) {
        let asked = "Reviews that were asked again for open watches, by what upstream said";
        registry.register("rechecks", asked, self.asked.clone());
        let ended = "Watches that were ended because their clients may not have more of them, by why";
        registry.register("rights_lost", ended, self.ended.clone());
        let kinds = "Of the four kinds of objects that give rights, how many are watched";
        registry.register("recheck_kinds_watched", kinds, self.kinds.clone());
        let (standings, rate) = (standings.clone(), self.rate.clone());
        registry.register_collector(Box::new(StandingMetrics { standings, rate }));
    }

    pub(super) fn set_rate(&self, rate: NonZeroU32) {
        self.rate.store(rate.get(), Ordering::Relaxed);
    }

    pub(super) fn asked(&self, reviewed: Reviewed) {
        let word = match reviewed {
            Reviewed::Allowed => "allowed",
            Reviewed::Denied | Reviewed::DeniedNow => "denied",
            Reviewed::Undecided => "undecided",
            Reviewed::Unreachable => "unreachable",
        };
        self.asked.get_or_create(&[("answer", word)]).inc();
    }

    pub(super) fn ended(&self, streams: usize, lost: Lost) {
        let word = match lost {
            Lost::Denied => "denied",
            Lost::Unanswered => "unanswered",
        };
        self.ended.get_or_create(&[("why", word)]).inc_by(streams as u64);
    }
}

// === impl StandingMetrics ===

impl StandingMetrics {
    /// How long a round takes: no question is asked again sooner than it may be.
    fn period(&self, questions: usize) -> f64 {
        let rate = self.rate.load(Ordering::Relaxed).max(1);
        let round = Duration::from_secs(questions as u64) / rate;
        round.max(self.standings.limits().soonest).as_secs_f64()
    }
}

impl Collector for StandingMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.standings.counts();
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let mut gauge = |(name, help): (&str, &str), value: f64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let streams = ("standing_watches", "Open watches whose clients' rights are asked for again");
        gauge(streams, number(counts.streams))?;
        gauge(("recheck_questions", "Distinct questions that these come to"), number(counts.questions))?;
        gauge(
            ("recheck_callers", "Distinct credentials in whose names they are asked"),
            number(counts.callers),
        )?;
        let urgent = "Of these questions, those whose answers may just have changed";
        gauge(("recheck_urgent", urgent), number(counts.urgent))?;
        let period = "How long it takes to ask all of them again";
        gauge(("recheck_period_seconds", period), self.period(counts.questions))?;
        let oldest = "How long ago upstream last confirmed the right that it has been longest for";
        gauge(("recheck_oldest_seconds", oldest), self.standings.oldest(Instant::now()).as_secs_f64())
    }
}
