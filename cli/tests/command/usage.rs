//! What a person gets who types a wrong command line: one sentence that says what is wrong, and exit code 2. Nothing here
//! needs an upstream; where a file is at fault, weir must say so before it tries to reach one.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use assert_cmd::Command;
use rustix::process::{Pid, Signal, kill_process};

use crate::dev::LIMIT;

/// A directory that is removed with its value.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-usage-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("weir").unwrap();
    command.args(arguments).env_remove("KUBECONFIG").env("HOME", "/nonexistent").timeout(LIMIT);
    command
}

/// What weir says of a wrong command line.
#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = weir(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {:?}", String::from_utf8_lossy(&output.stdout));
    said
}

/// One sentence, with these words in it; the log before it complains of nothing.
#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let said = refusal(arguments);
    let mut log: Vec<_> = said.lines().collect();
    let sentence = log.pop().unwrap();
    assert!(log.iter().all(|line| line.contains(" INFO ")), "{arguments:?}: {said}");
    assert!(sentence.starts_with("weir: "), "{said}");
    for word in words {
        assert!(sentence.contains(word), "{word} in {sentence}");
    }
}

fn kubeconfig(user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:9\"}}}}]\n\
         users: [{{name: u, user: {user}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}

#[test]
fn help_names_every_command_and_option() {
    let output = weir(&["--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
    for word in ["serve", "dev", "--help", "--version"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let output = weir(&["serve", "--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let options = [
        "--kubeconfig",
        "--upstream",
        "--listen",
        "--shards",
        "--mirror",
        "--write-kubeconfig",
        "--tick",
        "--tls-cert-file",
        "--tls-self-signed",
    ];
    for word in options {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn the_version_is_the_packages() {
    let output = weir(&["--version"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("weir {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_command_weir_says_how_it_is_used() {
    assert!(refusal(&[]).contains("Usage: weir"));
    assert!(refusal(&["nonsense"]).contains("'nonsense'"));
}

#[test]
fn wrong_flags_are_named() {
    for (arguments, word) in [
        (&["serve", "--nonsense"][..], "--nonsense"),
        (&["serve", "--listen", "nonsense"], "--listen"),
        (&["serve", "--listen"], "--listen"),
        (&["serve", "--shards", "0"], "--shards"),
        (&["serve", "--shards", "257"], "--shards"),
        (&["serve", "--upstream", "http://[nonsense"], "--upstream"),
        (&["serve", "--tls-cert-file", "a.crt"], "--tls-private-key-file"),
        (&["serve", "--tls-private-key-file", "a.key"], "--tls-cert-file"),
        (
            &["serve", "--tls-cert-file", "a", "--tls-private-key-file", "b", "--tls-self-signed"],
            "--tls-self-signed",
        ),
        (&["serve", "--max-connections", "0"], "--max-connections"),
        (&["serve", "--client-ca-file", "ca"], "--proxy-client-cert-file"),
        (&["serve", "--proxy-client-cert-file", "a", "--proxy-client-key-file", "b"], "--client-ca-file"),
        (&["serve", "--requestheader-username-headers", "X User"], "--requestheader-username-headers"),
        (&["serve", "--kubeconfig", "a", "--in-cluster"], "--in-cluster"),
        (&["serve", "--drain", "30"], "--drain"),
        (&["serve", "--tick", "A/b"], "--tick"),
        (&["shard", "--tick", ""], "--tick"),
        (&["proxy", "--tick", "weir"], "--tick"),
        (&["dev", "--instances", "0"], "--instances"),
        (&["dev", "--seed", "x"], "--seed"),
    ] {
        assert!(refusal(arguments).contains(word), "{arguments:?}");
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_named_in_one_sentence() {
    let directory = Directory::new("kubeconfig");
    refused(&["serve", "--kubeconfig", "/nonexistent/config"], &["/nonexistent/config"]);
    let broken = directory.write("broken", "clusters: [");
    refused(&["serve", "--kubeconfig", &broken], &["--kubeconfig"]);
    let empty = directory.write("empty", "apiVersion: v1\nkind: Config\n");
    refused(&["serve", "--kubeconfig", &empty], &["--kubeconfig"]);
    let token = directory.write("token", &kubeconfig("{token: t}"));
    refused(&["serve", "--kubeconfig", &token, "--context", "absent"], &["absent"]);
    refused(&["serve", "--in-cluster"], &[]);
}

#[test]
fn a_kubeconfig_for_clients_with_a_certificate_is_refused_and_not_written() {
    let directory = Directory::new("certificate");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap().self_signed(&key).unwrap();
    let (certificate, key) =
        (directory.write("u.crt", &certificate.pem()), directory.write("u.key", &key.serialize_pem()));
    let user = format!("{{client-certificate: {certificate:?}, client-key: {key:?}}}");
    let from = directory.write("kubeconfig", &kubeconfig(&user));
    let to = directory.path("written");
    let listen = ["--listen", "127.0.0.1:0"];
    let arguments = [&["serve", "--kubeconfig", &from, "--write-kubeconfig", &to][..], &listen].concat();
    refused(&arguments, &["--write-kubeconfig", "client certificate"]);
    assert!(!std::path::Path::new(&to).exists());
}

#[test]
fn a_place_to_listen_or_a_certificate_that_cannot_be_had_is_named() {
    let directory = Directory::new("listen");
    let from = directory.write("kubeconfig", &kubeconfig("{token: t}"));
    let first = ["serve", "--kubeconfig", from.as_str()];
    let serve = |more: &[&'static str]| [&first[..], more].concat();
    refused(&serve(&["--listen", "0.0.0.0:0"]), &["--listen", "loopback"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["serve", "--kubeconfig", &from, "--listen", &address], &["--listen", &address]);
    let files = ["--tls-cert-file", "/nonexistent/a.crt", "--tls-private-key-file", "/nonexistent/a.key"];
    refused(&serve(&[&["--listen", "127.0.0.1:0"][..], &files].concat()), &["/nonexistent/a.crt"]);
    let unwritable = ["--listen", "127.0.0.1:0", "--write-kubeconfig", "/nonexistent/there"];
    refused(&serve(&unwritable), &["--write-kubeconfig"]);
}

#[test]
fn a_fault_is_said_at_once_by_a_process_that_ends_with_its_standard_input() {
    let directory = Directory::new("pipe");
    let from = directory.write("kubeconfig", &kubeconfig("{token: t}"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("weir"))
        .args(["serve", "--kubeconfig", &from, "--listen", &address, "--until-stdin-ends"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It stays open until the process has ended by itself; if it does not, dropping it ends the process.
    let _stdin = child.stdin.take();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(LIMIT).expect("it ends").unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains(&address), "{said}");
}

#[test]
fn a_process_waits_for_an_upstream_that_is_not_there_and_ends_when_told_to() {
    let directory = Directory::new("waits");
    let from = directory.write("kubeconfig", &kubeconfig("{token: t}"));
    for command in ["serve", "shard"] {
        let own: &[&str] = match command {
            "serve" => &[],
            _ => &["--shard", "0/1", "--node", "0/1=127.0.0.1:9"],
        };
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("weir"))
            .args([command, "--kubeconfig", &from, "--listen", "127.0.0.1:0", "--mirror", "deployments.apps"])
            .args(own)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            said.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        });
        // Upstream is asked again and again.
        for _ in 0..2 {
            while !told.recv_timeout(LIMIT).expect(command).contains("not described") {}
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(child.wait()));
        let status = told.recv_timeout(LIMIT).expect("it ends").unwrap();
        assert_eq!(status.code(), Some(0), "{command}");
    }
}
