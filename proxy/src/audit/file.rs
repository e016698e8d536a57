//! A file of events, one a line. When it is full it is put aside under its name and the time, as kube-apiserver does it, and of
//! those that were put aside the newest are kept.
//!
//! A line that could not be written whole is taken back, so a reader never meets half a line in the middle.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::event::timestamp;
use super::sink::{Source, Writer};

/// Where events are written, and how much is kept.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The file.
    pub path: PathBuf,
    /// How large it gets, in bytes.
    pub max_bytes: u64,
    /// How many of those before it are kept; 0 for all.
    pub max_backups: usize,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened.
    #[error("open the file")]
    Open(#[source] io::Error),
    /// It cannot be appended to.
    #[error("write the file")]
    Write(#[source] io::Error),
    /// It cannot be put aside.
    #[error("put the full file aside")]
    Rotate(#[source] io::Error),
    /// The thread that wrote is gone.
    #[error("write in the background")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// A file that is written. None is open after a failure.
#[derive(Debug)]
pub struct LogFile {
    options: FileOptions,
    open: Option<(File, u64)>,
}

// === impl LogFile ===

impl LogFile {
    /// Opens it, and goes on behind what there is.
    pub fn open(options: FileOptions) -> Result<Self, FileError> {
        let mut file = Self { options, open: None };
        file.opened()?;
        Ok(file)
    }

    /// Writes what comes until told to stop, and then what waits.
    pub async fn run(self, source: Source, stop: CancellationToken) {
        source.write_to(self, stop).await;
    }

    /// Appends lines. How many are in the file now, and why not more.
    fn append(&mut self, lines: &[Bytes]) -> (usize, Result<(), FileError>) {
        // Somebody may have taken it away: what is written then is nowhere.
        self.open.take_if(|(file, _)| file.metadata().is_ok_and(|metadata| metadata.nlink() == 0));
        for (count, line) in lines.iter().enumerate() {
            if let Err(error) = self.append_one(line) {
                self.open = None;
                return (count, Err(error));
            }
        }
        (lines.len(), Ok(()))
    }

    fn append_one(&mut self, line: &Bytes) -> Result<(), FileError> {
        let added = line.len() as u64 + 1;
        let (max_bytes, length) = (self.options.max_bytes, self.opened()?.1);
        if length > 0 && length + added > max_bytes {
            self.rotate()?;
        }
        let (file, length) = self.opened()?;
        let written = file.write_all(&[line, &b"\n"[..]].concat());
        if let Err(error) = written {
            // Best effort: what is left of the line is at the end, where readers expect it.
            let _ = file.set_len(*length);
            return Err(FileError::Write(error));
        }
        *length += added;
        Ok(())
    }

    fn opened(&mut self) -> Result<&mut (File, u64), FileError> {
        if self.open.is_none() {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            let file = options.open(&self.options.path).map_err(FileError::Open)?;
            let length = file.metadata().map_err(FileError::Open)?.len();
            self.open = Some((file, length));
        }
        self.open.as_mut().ok_or_else(|| FileError::Open(io::ErrorKind::NotFound.into()))
    }

    fn rotate(&mut self) -> Result<(), FileError> {
        self.open = None;
        let aside = backup(&self.options.path, SystemTime::now());
        std::fs::rename(&self.options.path, aside).map_err(FileError::Rotate)?;
        if self.options.max_backups > 0 {
            let backups = backups(&self.options.path).map_err(FileError::Rotate)?;
            let excess = backups.len().saturating_sub(self.options.max_backups);
            for old in &backups[..excess] {
                std::fs::remove_file(old).map_err(FileError::Rotate)?;
            }
        }
        Ok(())
    }
}

impl Writer for LogFile {
    type Error = FileError;
    const BATCH: usize = 1_000;

    /// On a thread that may block.
    async fn write(&mut self, lines: &[Bytes]) -> (usize, Result<(), FileError>) {
        let mut file = Self { options: self.options.clone(), open: self.open.take() };
        let lines = lines.to_vec();
        let appended = tokio::task::spawn_blocking(move || {
            let appended = file.append(&lines);
            (file, appended)
        });
        match appended.await {
            Ok((file, appended)) => {
                *self = file;
                appended
            }
            // Its thread ends in the middle only with the process.
            Err(error) => (0, Err(error.into())),
        }
    }
}

/// The name under which a file is put aside: `audit-2026-01-02T03-04-05.678901.log`.
fn backup(path: &Path, at: SystemTime) -> PathBuf {
    let time = timestamp(at).replace(':', "-");
    let (stem, end) = (stem(path), end(path));
    path.with_file_name(format!("{stem}-{}{end}", time.trim_end_matches('Z')))
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn end(path: &Path) -> String {
    path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default()
}

/// What was put aside, oldest first.
fn backups(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (prefix, end) = (format!("{}-", stem(path)), end(path));
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut backups = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let time = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(&end));
        // The form of a time, so that nothing else is taken for one and removed.
        if time.is_some_and(|time| time.len() == "2026-01-02T03-04-05.678901".len() && time.starts_with('2'))
        {
            backups.push(directory.join(name));
        }
    }
    backups.sort();
    Ok(backups)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::audit::Sink;

    /// A directory that is removed with its value.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weir-audit-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn options(&self, max_bytes: u64) -> FileOptions {
            FileOptions { path: self.0.join("audit.log"), max_bytes, max_backups: 2 }
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    /// Waits until something is so.
    async fn until(is_so: impl Fn() -> bool) {
        let looked = async {
            let mut tick = tokio::time::interval(Duration::from_millis(1));
            while !is_so() {
                tick.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), looked).await.expect("in time");
    }

    fn lines(names: &[&'static str]) -> Vec<Bytes> {
        names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_newest_are_kept() {
        let directory = Directory::new("full");
        let options = directory.options(6);
        std::fs::write(directory.0.join("audit-notes.log"), "kept").unwrap();
        let mut file = LogFile::open(options.clone()).unwrap();
        let (count, written) = file.append(&lines(&["aa", "bb", "cc", "dd", "ee", "ff", "gg", "a long one"]));
        assert!(count == 8 && written.is_ok(), "{written:?}");
        let kept = backups(&options.path).unwrap();
        let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(kept.iter().map(text).collect::<Vec<_>>(), ["ee\nff\n", "gg\n"]);
        assert_eq!(text(&options.path), "a long one\n");
        assert_eq!(text(&directory.0.join("audit-notes.log")), "kept");
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_kept_until_it_can_and_the_sink_says_so() {
        let directory = Directory::new("down");
        let options = directory.options(1_000);
        let (sink, source) = Sink::new("test");
        let file = LogFile::open(options.clone()).unwrap();
        // A directory in its place: nothing can be opened there.
        std::fs::remove_file(&options.path).unwrap();
        std::fs::create_dir(&options.path).unwrap();
        let stop = CancellationToken::new();
        let play = async {
            sink.put(Bytes::from_static(b"one"));
            until(|| !sink.is_up()).await;
            sink.put(Bytes::from_static(b"two"));
            std::fs::remove_dir(&options.path).unwrap();
            until(|| sink.is_up()).await;
            stop.cancel();
        };
        tokio::join!(file.run(source, stop.clone()), play);
        assert_eq!(std::fs::read_to_string(&options.path).unwrap(), "one\ntwo\n");
    }
}
