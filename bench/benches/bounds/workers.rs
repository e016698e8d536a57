//! The other process of a measurement: a load client, or a process of weir, which says in lines what it has done and is told
//! in lines to go on. It ends with its standard input, so that it never outlives the measurement.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::task::spawn_blocking;

use weir_bench::served::Served;

/// The measurement's end.
pub(crate) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

// === impl Worker ===

impl Worker {
    /// Starts this program in another role, as a client of weir.
    pub(crate) fn start(role: &str, served: &Served, arguments: &[String]) -> Result<Self> {
        let mut all = vec![served.address.to_string(), served.ca_file.display().to_string()];
        all.extend_from_slice(arguments);
        Self::of_role(role, &all)
    }

    /// Starts this program in another role.
    pub(crate) fn of_role(role: &str, arguments: &[String]) -> Result<Self> {
        let mut command = Command::new(crate::this_program()?);
        command.arg(role).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {role}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Ok(Self { child, input, output })
    }

    /// Waits for a line that begins so, and returns its rest.
    pub(crate) async fn said(&mut self, word: &'static str) -> Result<String> {
        let mut output = self.output.take().context("the client has ended")?;
        let (line, output) = spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| (line, output))
        })
        .await??;
        self.output = Some(output);
        match line.trim().strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => bail!("the client said {line:?} where {word:?} was due"),
        }
    }

    /// Tells the client to go on.
    pub(crate) fn tell(&mut self, word: &str) -> Result<()> {
        let input = self.input.as_mut().context("the client was told to end")?;
        Ok(writeln!(input, "{word}")?)
    }

    /// Tells the client to go on, and waits for the numbers that it says then.
    pub(crate) async fn ask(&mut self, word: &'static str) -> Result<Vec<u64>> {
        self.tell(word)?;
        let said = self.said(word).await?;
        Ok(said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }

    /// Tells the client to end, and waits for it.
    pub(crate) async fn end(mut self) -> Result<()> {
        drop(self.input.take());
        let status = spawn_blocking(move || self.child.wait()).await??;
        if status.success() { Ok(()) } else { bail!("the client ended with {status}") }
    }
}

/// Says a line to the measurement.
pub(crate) fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Waits for a line of the measurement.
pub(crate) async fn told(word: &'static str) -> Result<()> {
    let mut line = String::new();
    let line = spawn_blocking(move || std::io::stdin().read_line(&mut line).map(|_| line)).await??;
    if line.trim() == word { Ok(()) } else { bail!("told {line:?} where {word:?} was due") }
}

/// The next line of the measurement; `None` once it tells the client to end.
pub(crate) async fn next_told() -> Result<Option<String>> {
    let mut line = String::new();
    let line = spawn_blocking(move || std::io::stdin().read_line(&mut line).map(|_| line)).await??;
    Ok(line.ends_with('\n').then(|| line.trim().to_owned()))
}

/// Waits until the measurement tells the client to end.
pub(crate) async fn told_to_end() -> Result<()> {
    spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}
