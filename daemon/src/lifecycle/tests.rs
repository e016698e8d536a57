//! The lifecycle under paused time: who stops the process, who is waited for, and for how long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{Lifecycle, StopCause};
use crate::signals::{Signal, Signals};

const GRACE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn the_end_of_a_plain_task_stops_nothing() {
    let life = Lifecycle::new();
    let (out, ended) = oneshot::channel();
    life.spawn("plain", async move { out.send(()).unwrap() });
    ended.await.unwrap();
    while !life.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!life.is_stopping());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_critical_task_stops_the_process() {
    let life = Lifecycle::new();
    life.spawn_critical("accept", async {});
    let stopped = life.stopped(GRACE).await;
    assert_eq!(stopped.cause, StopCause::Ended { task: "accept".into() });
    assert!(stopped.cause.is_fault());
    assert!(stopped.left.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_aborted_critical_task_stops_the_process() {
    let life = Lifecycle::new();
    life.spawn_critical("feed", std::future::pending()).abort();
    assert_eq!(life.stopped(GRACE).await.cause, StopCause::Ended { task: "feed".into() });
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_any_task_stops_the_process() {
    let life = Lifecycle::new();
    life.spawn("plain", async { panic!("on purpose") });
    let stopped = life.stopped(GRACE).await;
    assert_eq!(stopped.cause, StopCause::Panicked { task: "plain".into() });
    assert_eq!(stopped.cause.to_string(), "the task \"plain\" panicked");
}

#[tokio::test(start_paused = true)]
async fn a_critical_task_that_ends_when_told_is_no_fault() {
    let life = Lifecycle::new();
    let token = life.token().clone();
    life.spawn_critical("accept", async move { token.cancelled().await });
    life.stop(StopCause::Asked);
    life.stop(StopCause::Signal(Signal::Terminate));
    assert_eq!(life.stopped(GRACE).await.cause, StopCause::Asked, "the first cause wins");
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_until_all_are_out_and_no_longer() {
    let life = Lifecycle::new();
    let token = life.token().clone();
    life.spawn("drain", async move {
        token.cancelled().await;
        tokio::time::sleep(Duration::from_secs(7)).await;
    });
    let start = Instant::now();
    life.stop(StopCause::Asked);
    assert!(life.stopped(GRACE).await.left.is_empty());
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_task_spawned_while_stopping_is_waited_for_too() {
    let life = Lifecycle::new();
    let late = Arc::new(AtomicBool::new(false));
    let (inner, seen) = (life.clone(), Arc::clone(&late));
    life.spawn("drain", async move {
        inner.token().cancelled().await;
        inner.spawn("late", async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            seen.store(true, Ordering::Relaxed);
        });
    });
    life.stop(StopCause::Asked);
    assert!(life.stopped(GRACE).await.left.is_empty());
    assert!(late.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn who_outlives_the_grace_is_named_and_aborted() {
    let life = Lifecycle::new();
    let (held, dropped) = oneshot::channel::<()>();
    life.spawn("deaf", async move {
        std::future::pending::<()>().await;
        drop(held);
    });
    life.spawn(format!("feed {}", "pods"), std::future::pending());
    let start = Instant::now();
    life.stop(StopCause::Asked);
    let stopped = life.stopped(GRACE).await;
    assert_eq!(start.elapsed().as_secs(), GRACE.as_secs());
    assert_eq!(stopped.left, ["deaf", "feed pods"]);
    assert!(dropped.await.is_err(), "aborted, so its sender is gone");
}

#[tokio::test(start_paused = true)]
async fn the_first_signal_drains_and_the_second_ends_at_once() {
    let life = Lifecycle::new();
    let (send, receive) = mpsc::channel(2);
    life.spawn("deaf", std::future::pending());
    let running = {
        let life = life.clone();
        async move { life.run(Signals::scripted(receive), GRACE).await }
    };
    let start = Instant::now();
    let script = async {
        send.send(Signal::Terminate).await.unwrap();
        life.token().cancelled().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        send.send(Signal::Interrupt).await.unwrap();
    };
    let (stopped, ()) = tokio::join!(running, script);
    assert_eq!(stopped.cause, StopCause::Signal(Signal::Terminate));
    assert!(!stopped.cause.is_fault());
    assert_eq!(stopped.left, ["deaf"]);
    assert_eq!(start.elapsed().as_secs(), 3);
}
