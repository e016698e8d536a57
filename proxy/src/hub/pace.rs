//! Whether the frontier of a mirror goes on by itself. Judged by its last moves: one that is asked to catch up moves too, but
//! not as often.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The frontier of a busy mirror has moved so often within [`LATELY`]. A second watch that catches up moves it two or three
/// times a second at most, so asking does not make a mirror busy.
const BUSY_MOVES: usize = 5;
/// What counts as lately.
const LATELY: Duration = Duration::from_secs(1);

/// Whether a mirror goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// Its frontier has moved at least five times within the last second.
    Busy,
    /// It has not.
    Quiet,
}

/// When a frontier moved last.
#[derive(Debug, Default)]
pub struct Moves(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    moves: [Option<Instant>; BUSY_MOVES],
    /// The oldest of them, which is the next to be replaced.
    oldest: usize,
}

// === impl Pace ===

impl Pace {
    /// The word for it in labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Quiet => "quiet",
        }
    }
}

// === impl Moves ===

impl Moves {
    /// The frontier has moved.
    pub fn note(&self) {
        let mut last = self.0.lock();
        let oldest = last.oldest;
        last.moves[oldest] = Some(Instant::now());
        last.oldest = (oldest + 1) % BUSY_MOVES;
    }

    /// How it has moved lately.
    pub fn pace(&self) -> Pace {
        let last = self.0.lock();
        match last.moves[last.oldest] {
            Some(oldest) if oldest.elapsed() < LATELY => Pace::Busy,
            Some(_) | None => Pace::Quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_mirror_is_busy_while_its_frontier_moves_five_times_a_second() {
        let moves = Moves::default();
        for _ in 0..BUSY_MOVES - 1 {
            moves.note();
        }
        assert_eq!(moves.pace(), Pace::Quiet, "too few");
        moves.note();
        assert_eq!(moves.pace(), Pace::Busy);
        tokio::time::advance(LATELY / 2).await;
        moves.note();
        assert_eq!(moves.pace(), Pace::Busy);
        tokio::time::advance(LATELY / 2).await;
        assert_eq!(moves.pace(), Pace::Quiet, "only one of the last five was within the second");
    }
}
