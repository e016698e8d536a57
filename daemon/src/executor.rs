//! Lets HTTP/2 spawn its tasks through the [`Lifecycle`]: otherwise a panic in one of them would be missed, and stopping
//! would not wait for them.

use std::future::Future;

use crate::Lifecycle;

/// An executor for builders of connections; its tasks have one name.
#[derive(Clone, Debug)]
pub struct TaskExecutor {
    lifecycle: Lifecycle,
    name: &'static str,
    end: End,
}

/// When tasks end.
#[derive(Clone, Copy, Debug)]
enum End {
    /// By themselves.
    ByThemselves,
    /// As soon as the process is told to stop.
    AtStop,
}

// === impl TaskExecutor ===

impl TaskExecutor {
    /// Tasks are spawned by this life under this name.
    pub fn new(lifecycle: Lifecycle, name: &'static str) -> Self {
        Self { lifecycle, name, end: End::ByThemselves }
    }

    /// The same for tasks that owe nobody anything once the process is told to stop.
    pub fn until_stop(lifecycle: Lifecycle, name: &'static str) -> Self {
        Self { lifecycle, name, end: End::AtStop }
    }
}

impl<F> hyper::rt::Executor<F> for TaskExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        let (stop, end) = (self.lifecycle.token().clone(), self.end);
        self.lifecycle.spawn(self.name, async move {
            match end {
                End::ByThemselves => drop(future.await),
                // Whether it was told or ended by itself makes no difference.
                End::AtStop => drop(stop.run_until_cancelled(future).await),
            }
        });
    }
}
