//! Lets HTTP/2 spawn its tasks through the [`Lifecycle`]: otherwise a panic in one of them would be missed, and stopping
//! would not wait for them.

use std::future::Future;

use crate::Lifecycle;

/// An executor for builders of connections; its tasks have one name.
#[derive(Clone, Debug)]
pub struct TaskExecutor {
    lifecycle: Lifecycle,
    name: &'static str,
}

// === impl TaskExecutor ===

impl TaskExecutor {
    /// Tasks are spawned by this life under this name.
    pub fn new(lifecycle: Lifecycle, name: &'static str) -> Self {
        Self { lifecycle, name }
    }
}

impl<F> hyper::rt::Executor<F> for TaskExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        self.lifecycle.spawn(self.name, async move {
            future.await;
        });
    }
}
