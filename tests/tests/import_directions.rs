//! Imports point one way, between crates and inside them, and what is pure stays pure. Read off the files as text, so a
//! path that goes another way fails here before anybody builds on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which crates of weir a crate may name in its manifest.
const CRATES: [(&str, &[&str]); 10] = [
    ("core", &[]),
    ("proto", &["weir-core"]),
    ("daemon", &["weir-core", "weir-proto"]),
    ("upstream", &["weir-core", "weir-proto", "weir-daemon"]),
    // The simulation is the upstream of its tests.
    ("shard-node", &["weir-core", "weir-proto", "weir-daemon", "weir-upstream", "weir-sim"]),
    ("proxy", &["weir-core", "weir-proto", "weir-daemon", "weir-upstream", "weir-shard-node"]),
    ("sim", &["weir-core"]),
    // It measures the others; only cli reads from it.
    (
        "bench",
        &[
            "weir-core",
            "weir-proto",
            "weir-daemon",
            "weir-upstream",
            "weir-shard-node",
            "weir-proxy",
            "weir-sim",
        ],
    ),
    (
        "cli",
        &[
            "weir-core",
            "weir-proto",
            "weir-daemon",
            "weir-upstream",
            "weir-shard-node",
            "weir-proxy",
            "weir-sim",
            "weir-bench",
        ],
    ),
    ("tests", &["weir-core", "weir-daemon", "weir-upstream", "weir-shard-node", "weir-proxy", "weir-sim"]),
];

/// Modules in their order, each with those that it may name.
type Flow = &'static [(&'static str, &'static [&'static str])];

/// Which modules of its crate a module may name, besides itself. A module that is not listed may be named by nobody but
/// those that list it, so a new one has to find its place here.
const FLOWS: [(&str, Flow); 2] = [
    (
        "shard-node",
        &[
            ("store", &[]),
            ("node", &["store"]),
            ("memory", &["store", "node"]),
            ("feed", &[]),
            ("refusal", &[]),
            ("nodes", &[]),
            ("feeds", &["feed"]),
            ("subscriber", &["feed", "node"]),
            ("warm", &["store", "node", "nodes"]),
            ("remote", &["feed", "feeds", "refusal", "node", "nodes", "subscriber", "warm"]),
            ("host", &["feed", "feeds", "memory", "node", "nodes", "remote"]),
            ("rpc", &["feed", "feeds", "refusal", "node", "host"]),
        ],
    ),
    (
        "proxy",
        &[
            ("bucket", &[]),
            ("known", &[]),
            ("peers", &[]),
            ("link", &["peers"]),
            ("merge", &[]),
            ("shards", &["link", "merge", "peers"]),
            ("hub", &["shards", "merge", "link", "peers"]),
            ("audited", &[]),
            ("auth", &["audited"]),
            ("audit", &["audited", "auth"]),
            ("drain", &[]),
            ("passthrough", &["drain"]),
            ("mirror", &["shards", "hub", "link", "merge", "peers", "bucket", "known"]),
            ("metrics", &["mirror", "peers"]),
            (
                "http",
                &["shards", "hub", "mirror", "auth", "drain", "passthrough", "bucket", "known", "audit"],
            ),
        ],
    ),
];

/// The synchronous types: messages and a time in, messages out.
const SYNCHRONOUS: [&str; 15] = [
    "core/src",
    "shard-node/src/store.rs",
    "shard-node/src/store",
    "shard-node/src/node.rs",
    "shard-node/src/node",
    "shard-node/src/feed/ring.rs",
    "shard-node/src/feed/ring",
    "shard-node/src/feed/plan.rs",
    "shard-node/src/nodes/pulse.rs",
    "proxy/src/merge.rs",
    "proxy/src/merge",
    "proxy/src/hub/lag.rs",
    "proxy/src/peers/pace.rs",
    "proxy/src/peers/names.rs",
    "proxy/src/peers/names/set.rs",
];

/// Beside them, under the same roof: the task side, which may wait.
const TASK_SIDE: [&str; 1] = ["shard-node/src/node/cell.rs"];

/// What no synchronous type may name.
const IMPURE: [&str; 9] = [
    "tokio",
    "std::time::Instant",
    "std::time::{",
    "Instant::now",
    "SystemTime",
    "std::net",
    "std::fs",
    "std::thread",
    "std::env",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// Every Rust file at or under `path`, without tests.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    let entries = entries.map(|entry| entry.expect("an entry of the folder").path());
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name != "tests.rs"
            && name != "tests"
            && name != "testing.rs"
            && (path.is_dir() || name.ends_with(".rs"))
    };
    entries.filter(is_wanted).flat_map(|path| sources(&path)).collect()
}

/// The code without comments; the tests of a file come last in it and are left out.
fn code(path: &Path) -> String {
    let text = read(path);
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// What a manifest depends on, for building and for tests.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut is_dependencies = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependencies = line.contains("dependencies");
        } else if let Some(end) = line.find(['.', ' ', '=']).filter(|_| is_dependencies) {
            found.insert(line[..end].to_owned());
        }
    }
    found
}

/// The modules of its own crate that some code names: what stands behind `crate::`, singly or in braces.
fn named_modules(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let heads = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default(),
            None => rest,
        };
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let heads = if rest.starts_with('{') { heads.split(',').collect() } else { vec![heads] };
        for head in heads {
            let head = head.trim();
            let end = head.find(|c| !is_name(c)).unwrap_or(head.len());
            named.insert(head[..end].to_owned());
        }
    }
    named.retain(|name| name.chars().next().is_some_and(char::is_lowercase));
    named
}

#[test]
fn crates_depend_one_way() {
    let manifest = read(&root().join("Cargo.toml"));
    let members =
        manifest.lines().find(|line| line.starts_with("members")).expect("the workspace has members");
    for member in members.split('"').skip(1).step_by(2) {
        let known = CRATES.iter().find(|(name, _)| *name == member);
        let (_, allowed) = known.unwrap_or_else(|| panic!("{member} has no place in the order of crates"));
        let found = dependencies(&read(&root().join(member).join("Cargo.toml")));
        let is_wrong = |name: &&String| name.starts_with("weir-") && !allowed.contains(&name.as_str());
        let wrong: Vec<_> = found.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{member} must not depend on {wrong:?}");
    }
}

#[test]
fn modules_read_one_way() {
    for (member, flow) in FLOWS {
        let flow: BTreeMap<&str, &[&str]> = flow.iter().copied().collect();
        let source = root().join(member).join("src");
        for path in sources(&source) {
            let inside = path.strip_prefix(&source).expect("found under it");
            let module = inside.components().next().expect("a file has a name").as_os_str().to_string_lossy();
            let module = module.trim_end_matches(".rs");
            if module == "lib" {
                continue;
            }
            let allowed =
                flow.get(module).unwrap_or_else(|| panic!("{member}: {module} has no place in the flow"));
            for named in named_modules(&code(&path)) {
                let is_right = named == module || allowed.contains(&named.as_str());
                assert!(is_right, "{} reads from {named}, which is not before {module}", path.display());
            }
        }
    }
}

#[test]
fn what_is_synchronous_reads_no_clock_and_does_not_wait() {
    let task_side: Vec<_> = TASK_SIDE.iter().map(|path| root().join(path)).collect();
    let hub = root().join("proxy/src/hub.rs");
    let mut paths: Vec<_> = SYNCHRONOUS.iter().flat_map(|path| sources(&root().join(path))).collect();
    paths.push(hub);
    for path in paths.iter().filter(|path| !task_side.contains(path)) {
        let code = code(path);
        for word in IMPURE {
            assert!(!code.contains(word), "{} names {word}", path.display());
        }
        assert!(!code.contains("async "), "{} waits", path.display());
    }
}

#[test]
fn core_takes_no_runtime() {
    let found = dependencies(&read(&root().join("core/Cargo.toml")));
    for name in ["tokio", "hyper", "kube", "rand", "parking_lot"] {
        assert!(!found.contains(name), "core depends on {name}");
    }
}

#[test]
fn the_scan_finds_what_it_looks_for() {
    let code = "use crate::{feed::ring::Ring, node};\nuse crate::store::Store;\nfn f() { crate::http::go(); crate::Type::new(); }";
    let named = named_modules(code);
    assert_eq!(named.into_iter().collect::<Vec<_>>(), ["feed", "http", "node", "store"]);
    let manifest = "[package]\nname = \"weir-x\"\n[dependencies]\nweir-core.workspace = true\n[dev-dependencies]\n\nbytes = \"1\"\nweir-sim = { path = \"\" }\n";
    assert_eq!(dependencies(manifest).into_iter().collect::<Vec<_>>(), ["bytes", "weir-core", "weir-sim"]);
}
