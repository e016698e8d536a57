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

use super::{Lifecycle, StopCause, Stopped};
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

/// What a script of signals makes of a process with a deaf task and a drain of this length; how long it took, in seconds.
async fn played(script: &[(u64, Signal)], drain: u64, life: &Lifecycle) -> (Stopped, u64) {
    let (send, receive) = mpsc::channel(2);
    let start = Instant::now();
    let token = life.token().clone();
    let drain = async move {
        assert!(!token.is_cancelled(), "everybody works on while the process drains");
        tokio::time::sleep(Duration::from_secs(drain)).await;
    };
    let running = life.run(Signals::scripted(receive), drain, GRACE);
    let script = async {
        for (after, signal) in script {
            tokio::time::sleep_until(start + Duration::from_secs(*after)).await;
            send.send(*signal).await.unwrap();
        }
    };
    let (stopped, ()) = tokio::join!(running, script);
    (stopped, start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_signal_drains_then_stops_and_waits() {
    let life = Lifecycle::new();
    let token = life.token().clone();
    life.spawn("slow", async move {
        token.cancelled().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
    let (stopped, took) = played(&[(1, Signal::Terminate)], 7, &life).await;
    assert_eq!(stopped, Stopped { cause: StopCause::Signal(Signal::Terminate), left: Vec::new() });
    assert_eq!(took, 1 + 7 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_the_drain_and_the_waiting_at_once() {
    for (drain, name) in [(60, "while draining"), (2, "while waiting for tasks")] {
        let life = Lifecycle::new();
        life.spawn("deaf", std::future::pending());
        let (stopped, took) = played(&[(0, Signal::Terminate), (3, Signal::Interrupt)], drain, &life).await;
        assert!(!stopped.cause.is_fault() && life.is_stopping(), "{name}");
        assert_eq!((stopped.left, took), (vec!["deaf".into()], 3), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_ends_the_drain() {
    let life = Lifecycle::new();
    life.spawn_critical("feed", tokio::time::sleep(Duration::from_secs(5)));
    let (stopped, took) = played(&[(1, Signal::Terminate)], 60, &life).await;
    assert_eq!((stopped.cause, took), (StopCause::Ended { task: "feed".into() }, 5));
}

#[tokio::test(start_paused = true)]
async fn who_stops_without_a_signal_does_not_drain() {
    let life = Lifecycle::new();
    life.spawn_critical("feed", tokio::time::sleep(Duration::from_secs(5)));
    let (stopped, took) = played(&[], 60, &life).await;
    assert_eq!((stopped.cause.is_fault(), took), (true, 5));
}
