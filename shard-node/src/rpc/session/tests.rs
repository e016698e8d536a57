//! Sessions as a proxy sees them: order, pace, and every way to end. Time stands still unless all wait for it.

mod hostile;
mod life;
mod order;
mod paced;
