//! What is made of files, and made again when they change: certificates are replaced long before they expire, and nobody
//! restarts a process for that. What uses it asks for [`Followed::current`] each time it needs it and keeps nothing.
//!
//! The content is compared, not the time of a change: a mounted Secret is replaced by renaming a directory above it. Files
//! that are replaced one after the other make no pair for a moment; then the old ones go on until the next look.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    Lifecycle,
    tls::{TlsError, unread},
};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Files that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// What they are for, as logs and metrics call it.
    pub name: &'static str,
    /// Where they are.
    pub paths: Vec<PathBuf>,
}

/// What is made of files. Clones are the same.
pub struct Followed<T, E>(Arc<Shared<T, E>>);

type Make<T, E> = Box<dyn Fn(&Contents) -> Result<T, E> + Send + Sync>;

struct Shared<T, E> {
    files: Files,
    make: Make<T, E>,
    current: ArcSwap<Made<T>>,
}

struct Made<T> {
    contents: Contents,
    value: Arc<T>,
}

/// What stood in the files at one look.
#[derive(Clone, PartialEq, Eq)]
pub struct Contents(Vec<(PathBuf, Vec<u8>)>);

/// How often files were taken and refused, by what they are for.
#[derive(Clone, Debug, Default)]
pub struct Reloads {
    taken: Family<Of, Counter>,
    refused: Family<Of, Counter>,
    stale: Family<Of, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    files: &'static str,
}

/// Looks at the files, and remembers what it has complained about.
pub(crate) struct Follower<T, E> {
    followed: Followed<T, E>,
    reloads: Reloads,
    last: Last,
}

/// What the last look found.
enum Last {
    /// What is in use.
    Fine,
    /// Something that could not be read.
    Unreadable,
    /// Something that could not be used.
    Broken(Contents),
}

// === impl Followed ===

impl<T, E> Followed<T, E>
where
    T: Send + Sync + 'static,
    E: Error + From<TlsError> + 'static,
{
    /// What these files make now. [`Followed::follow`] keeps it up to date.
    pub fn read(
        files: Files,
        make: impl Fn(&Contents) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let read = |path: &PathBuf| match std::fs::read(path) {
            Ok(content) => Ok((path.clone(), content)),
            Err(source) => Err(unread(path, source)),
        };
        let contents = Contents(files.paths.iter().map(read).collect::<Result<_, _>>()?);
        let value = Arc::new(make(&contents)?);
        let current = ArcSwap::from_pointee(Made { contents, value });
        Ok(Self(Arc::new(Shared { files, make: Box::new(make), current })))
    }

    /// What the files made when they were last good.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.0.current.load().value)
    }

    /// Spawns the task that reads the files again when they have changed. It ends when the process stops. What cannot be
    /// used is warned of once, and the old goes on.
    pub fn follow(&self, lifecycle: &Lifecycle, reloads: &Reloads) {
        let follower = self.follower(reloads);
        lifecycle.spawn("certificate files", follower.run(lifecycle.token().clone()));
    }

    pub(crate) fn follower(&self, reloads: &Reloads) -> Follower<T, E> {
        // A series that is there from the beginning can be asked for its rise.
        reloads.stale(self.0.files.name, false);
        Follower { followed: self.clone(), reloads: reloads.clone(), last: Last::Fine }
    }
}

impl<T, E> Clone for Followed<T, E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, E> fmt::Debug for Followed<T, E> {
    /// Contents stay out of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("files", &self.0.files).finish_non_exhaustive()
    }
}

// === impl Reloads ===

impl Reloads {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let taken = "How often changed certificate files were taken";
        registry.register("certificate_reloads", taken, self.taken.clone());
        let refused = "How often changed certificate files could not be used";
        registry.register("certificate_refusals", refused, self.refused.clone());
        let stale =
            "Whether the certificates in use are older than what their files hold, which cannot be used";
        registry.register("certificate_files_stale", stale, self.stale.clone());
    }

    fn taken(&self, files: &'static str) {
        self.taken.get_or_create(&Of { files }).inc();
        self.stale(files, false);
    }

    fn refused(&self, files: &'static str) {
        self.refused.get_or_create(&Of { files }).inc();
        self.stale(files, true);
    }

    fn stale(&self, files: &'static str, is_stale: bool) {
        self.stale.get_or_create(&Of { files }).set(i64::from(is_stale));
    }
}

// === impl Follower ===

impl<T, E> Follower<T, E>
where
    T: Send + Sync + 'static,
    E: Error + From<TlsError> + 'static,
{
    async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            self.look().await;
        }
    }

    /// Reads the files, and takes what is new in them if it can be used.
    pub(crate) async fn look(&mut self) {
        let Shared { files, make, current } = &*self.followed.0;
        let contents = match Contents::read(files).await {
            Ok(contents) => contents,
            Err(error) => {
                if !matches!(self.last, Last::Unreadable) {
                    let error: &dyn Error = &error;
                    warn!(files = files.name, error, "certificates cannot be read, the old ones go on");
                    self.reloads.refused(files.name);
                }
                self.last = Last::Unreadable;
                return;
            }
        };
        if contents == current.load().contents {
            self.last = Last::Fine;
            self.reloads.stale(files.name, false);
            return;
        }
        if matches!(&self.last, Last::Broken(broken) if *broken == contents) {
            return;
        }
        match make(&contents) {
            Ok(value) => {
                current.store(Arc::new(Made { contents, value: Arc::new(value) }));
                info!(files = files.name, "new certificates are in use");
                self.last = Last::Fine;
                self.reloads.taken(files.name);
            }
            Err(error) => {
                let error: &dyn Error = &error;
                warn!(files = files.name, error, "new certificates cannot be used, the old ones go on");
                self.last = Last::Broken(contents);
                self.reloads.refused(files.name);
            }
        }
    }
}

// === impl Contents ===

impl Contents {
    async fn read(files: &Files) -> Result<Self, TlsError> {
        let mut contents = Vec::with_capacity(files.paths.len());
        for path in &files.paths {
            let content = tokio::fs::read(path).await.map_err(|source| unread(path, source))?;
            contents.push((path.clone(), content));
        }
        Ok(Self(contents))
    }

    /// What stood in one of them; nothing for a file that is none of them.
    pub fn of(&self, path: &Path) -> &[u8] {
        self.0.iter().find(|(other, _)| other == path).map_or(&[], |(_, content)| content)
    }
}
