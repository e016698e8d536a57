//! `weir dev` as a person runs it: it says when it is ready, serves what it mirrors, and ends on SIGTERM without a complaint.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use rustix::process::{Pid, Signal, kill_process};
use weir_daemon::{Lifecycle, StopCause};
use weir_upstream::{Origin, Role, Upstream, UpstreamOptions};

/// A debug build on a busy machine starts within seconds.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A process of weir's, and its directory. Both end with the value.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
    pub(crate) directory: PathBuf,
}

// === impl Running ===

impl Running {
    pub(crate) fn start(name: &str, more: &[&str]) -> Self {
        Self::spawn("dev", name, |command| {
            command.args(more);
        })
    }

    /// The same with another command, whose log is as talkative as it can be.
    pub(crate) fn run(command: &str, name: &str, more: &[&str]) -> Self {
        Self::spawn(command, name, |command| {
            command.args(more).env("WEIR_LOG", "trace");
        })
    }

    fn spawn(first: &str, name: &str, change: impl FnOnce(&mut Command)) -> Self {
        let directory = std::env::temp_dir().join(format!("weir-cli-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("weir"));
        command.args([first, "--listen", "127.0.0.1:0", "--write-kubeconfig"]);
        command.arg(directory.join("kubeconfig"));
        change(&mut command);
        // What weir leaves behind of its own would be here.
        command.env("TMPDIR", &directory).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(directory.join("log")).unwrap());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, directory }
    }

    /// The address that weir says it is ready at.
    pub(crate) fn ready(&mut self) -> String {
        let line = self.line();
        let address = line.strip_prefix("ready: https://").unwrap_or_else(|| panic!("{line:?}"));
        assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0\n"), "{line:?}");
        address.trim_end().to_owned()
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        self.within(|stdout| {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line
        })
    }

    /// Sends it a signal.
    pub(crate) fn tell(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// How it ends when it is told to, and what else it had said.
    fn end(&mut self, signal: Signal) -> (ExitStatus, String) {
        self.tell(signal);
        self.ended()
    }

    /// How it ends, and what else it had said.
    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let said = self.within(|stdout| {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        (self.child.wait().unwrap(), said)
    }

    /// Reads what weir prints, for a limited time.
    fn within(&mut self, read: impl FnOnce(&mut BufReader<ChildStdout>) -> String) -> String {
        let (done, is_done) = sync_channel::<()>(1);
        let pid = Pid::from_child(&self.child);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The end of the other side is as good as its word.
                if is_done.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            });
            let text = read(&mut self.stdout);
            drop(done);
            text
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

/// The answer to a request that is made as the written kubeconfig says.
async fn get(running: &Running, path: &str) -> (u16, String, String) {
    let lifecycle = Lifecycle::new();
    let origin = Origin::Kubeconfig { path: Some(running.directory.join("kubeconfig")), context: None };
    let options = UpstreamOptions { origin, urls: Vec::new() };
    let weir = Upstream::load(options, &lifecycle).await.unwrap();
    let connection = weir.instances()[0].connect(Role::Feed).await.unwrap();
    let answer = connection.send(Request::get(path).body(Bytes::new()).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let by = answer.headers()["weir-answered-by"].to_str().unwrap().to_owned();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    drop(connection);
    // A client that does not take part in the end of a connection would be waited for.
    lifecycle.stop(StopCause::Asked);
    assert!(lifecycle.stopped(LIMIT).await.left.is_empty());
    (code, by, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn dev_says_that_it_is_ready_serves_and_ends() {
    let mut running = Running::start(
        "serves",
        &["--mirror", "pods,gauges.metering.weir.test", "--shards", "3", "--pods", "40", "--drain", "1s"],
    );
    running.ready();
    let (code, by, body) = get(&running, "/api/v1/pods?resourceVersion=0").await;
    assert_eq!((code, by.as_str()), (200, "mirror"), "{body}");
    assert!(
        body.starts_with(r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":""#),
        "{body}"
    );
    let (code, by, body) = get(&running, "/apis/metering.weir.test/v1/gauges?resourceVersion=0").await;
    assert_eq!((code, by.as_str()), (200, "mirror"), "{body}");
    assert!(body.starts_with(r#"{"apiVersion":"metering.weir.test/v1","items":[{"apiVersion":"#), "{body}");
    let (code, by, body) = get(&running, "/version").await;
    assert_eq!((code, by.as_str()), (200, "passed; not a read of objects"), "{body}");
    let (status, said) = running.end(Signal::TERM);
    let log = std::fs::read_to_string(running.directory.join("log")).unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(said.contains("kubectl --kubeconfig") && said.contains("curl"), "{said}");
    assert!(log.contains("told to stop") && !log.contains("did not stop in time"), "{log}");
}

#[tokio::test]
async fn dev_ends_on_an_interrupt_and_leaves_no_files_behind() {
    let mut running = Running::start("interrupt", &["--pods", "40", "--drain", "1s"]);
    running.ready();
    let names = |running: &Running| {
        let entries = std::fs::read_dir(&running.directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(&running).len(), 3, "{:?}", names(&running));
    let (status, _) = running.end(Signal::INT);
    assert_eq!(status.code(), Some(0));
    let mut left = names(&running);
    left.sort();
    assert_eq!(left, ["kubeconfig", "log"]);
}

#[test]
fn a_mirror_of_what_upstream_does_not_have_is_refused() {
    let mut command = assert_cmd::Command::cargo_bin("weir").unwrap();
    command.args(["dev", "--listen", "127.0.0.1:0", "--mirror", "gadgets.weir.test"]).timeout(LIMIT);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("weir: ") && last.contains("gadgets.weir.test"), "{said}");
}
