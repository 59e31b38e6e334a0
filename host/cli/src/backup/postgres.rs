//! Runs `pg_dump`, `pg_restore` and `psql`.
//!
//! The connection parameters are in the environment of the programs, because every user of the
//! machine can read the arguments of a process.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, anyhow, bail};
use latchmail_core::config;
use latchmail_directory::backup::{PostgresState, Restore, postgres_script};
use latchmail_terminal::output::escape;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use url::Url;

/// Tables whose rows are not in a backup. The service fills `mailserver_dkim_keys` at its start
/// with private keys in plain text. A restore expires all cursors, so the change logs are not
/// needed. The other tables describe the running hosts.
const OMITTED: [&str; 6] = [
    "mailserver_dkim_keys",
    "mailbox_changes",
    "mailbox_events",
    "watched_mailboxes",
    "hosts",
    "host_events",
];

/// The root certificates in Debian's package ca-certificates. By default, libpq does not use this
/// file.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A setting that `pg_restore` 17 and later write, and that earlier servers do not know.
const TRANSACTION_TIMEOUT: &str = "SET transaction_timeout = 0;";

/// Maximum length of an error text of a program, in bytes.
const MAX_ERROR: u64 = 4096;

/// Writes an archive of the database to a new file. `pg_dump` reads one snapshot, so the archive
/// contains only complete transactions.
pub(crate) async fn dump(
    database: &config::Database,
    state: &PostgresState,
    file: &Path,
) -> anyhow::Result<()> {
    require("pg_dump", Some(state.server)).await?;
    let output = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("cannot create {}", file.display()))?;
    let mut command = program("pg_dump", database)?;
    command
        .args([
            "--format=custom",
            "--no-password",
            "--no-owner",
            "--no-privileges",
        ])
        .arg("--lock-wait-timeout=30s")
        .arg(format!("--schema={}", quoted(&state.schema)));
    for table in OMITTED {
        let table = format!("{}.{table}", quoted(&state.schema));
        command.arg(format!("--exclude-table-data={table}"));
    }
    command.stdout(output.try_clone()?);
    let mut running = Running::start("pg_dump", command)?;
    running.finish().await?;
    output.sync_all()?;
    Ok(())
}

/// Restores an archive in one transaction, which also makes the changes of `restore`. Nothing is
/// changed if the transaction fails.
///
/// `pg_restore` also has an option for one transaction, but that transaction would not include the
/// changes of `restore`. If the command were interrupted before these changes, a service that then
/// starts would assign message numbers of other messages to new messages.
pub(crate) async fn restore(
    database: &config::Database,
    state: &PostgresState,
    file: &Path,
    restore: &Restore,
) -> anyhow::Result<()> {
    require("pg_restore", None).await?;
    require("psql", None).await?;
    let mut reader = Command::new("pg_restore");
    reader
        .args(["--no-owner", "--no-privileges", "--file=-"])
        .arg(format!("--schema={}", state.schema));
    if state.version.is_some() {
        // The tables exist and are empty, so `pg_restore` must replace them.
        reader.args(["--clean", "--if-exists"]);
    }
    reader.arg(file).stdout(Stdio::piped());
    let mut writer = program("psql", database)?;
    writer
        .args([
            "--no-psqlrc",
            "--quiet",
            "--no-password",
            "--set=ON_ERROR_STOP=1",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut reader = Running::start("pg_restore", reader)?;
    let mut writer = Running::start("psql", writer)?;
    let mut copied = copy(&mut reader, &mut writer).await;
    if copied.is_ok()
        && let Err(error) = reader.finish().await
    {
        // Without COMMIT, the server rolls the transaction back.
        writer.child.kill().await.ok();
        return Err(error);
    }
    if copied.is_ok()
        && let Some(mut input) = writer.child.stdin.take()
    {
        let end = format!("{}COMMIT;\n", postgres_script(&state.schema, restore));
        copied = input.write_all(end.as_bytes()).await;
        if copied.is_ok() {
            copied = input.shutdown().await;
        }
    }
    drop(writer.child.stdin.take());
    // If psql has failed, its own error is reported.
    writer.finish().await?;
    copied.context("psql did not accept the output of pg_restore")
}

/// Writes the output of `pg_restore` to `psql`, after the begin of a transaction.
async fn copy(reader: &mut Running, writer: &mut Running) -> std::io::Result<()> {
    let (Some(output), Some(input)) = (reader.child.stdout.take(), &mut writer.child.stdin) else {
        return Ok(());
    };
    let mut output = BufReader::with_capacity(1 << 16, output);
    input.write_all(b"BEGIN;\n").await?;
    // Remove `TRANSACTION_TIMEOUT` only before the first object, because the settings are there.
    // Later lines can contain data.
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).await? > 0 {
        if line.trim_ascii() != TRANSACTION_TIMEOUT.as_bytes() {
            input.write_all(&line).await?;
        }
        let is_object = [b"CREATE ".as_slice(), b"DROP ", b"ALTER ", b"COPY "]
            .iter()
            .any(|word| line.starts_with(word));
        if is_object {
            break;
        }
        line.clear();
    }
    tokio::io::copy_buf(&mut output, input).await?;
    Ok(())
}

/// A running program whose standard error is collected.
struct Running {
    name: &'static str,
    child: Child,
    errors: Option<JoinHandle<String>>,
}

impl Running {
    fn start(name: &'static str, mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {name}"))?;
        let errors = child.stderr.take().map(|stderr| tokio::spawn(text(stderr)));
        Ok(Self {
            name,
            child,
            errors,
        })
    }

    /// Waits until the program ends. If the program failed, returns an error with the text of its
    /// standard error.
    async fn finish(&mut self) -> anyhow::Result<()> {
        let status = self.child.wait().await?;
        let errors = match self.errors.take() {
            Some(errors) => errors.await.unwrap_or_default(),
            None => String::new(),
        };
        if status.success() {
            return Ok(());
        }
        let lines: Vec<&str> = errors.lines().filter(|line| !line.is_empty()).collect();
        bail!(
            "{} failed ({status}): {}",
            self.name,
            escape(&lines.join("; "))
        )
    }
}

/// Returns at most [`MAX_ERROR`] bytes of `stderr`. Reads and discards all later bytes, so that the
/// program does not block on a full pipe.
async fn text(mut stderr: impl AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    let _ = (&mut stderr).take(MAX_ERROR).read_to_end(&mut text).await;
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// Checks that a program exists and is not older than the server.
async fn require(program: &str, server: Option<u32>) -> anyhow::Result<()> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .await;
    let version = match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        _ => bail!(
            "{program} is not installed or cannot run; install the PostgreSQL client, on Debian with `apt install postgresql-client`"
        ),
    };
    // For example `pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
    let mut words = version.split_whitespace();
    let major = words.find_map(|word| word.split('.').next()?.parse::<u32>().ok());
    if let (Some(server), Some(major)) = (server, major)
        && major < server
    {
        bail!(
            "{program} {major} cannot read the server, which has version {server}; install the PostgreSQL client {server} or later"
        );
    }
    Ok(())
}

/// Returns the command of a program that connects to the database.
fn program(name: &str, database: &config::Database) -> anyhow::Result<Command> {
    let mut command = Command::new(name);
    command
        .stdin(Stdio::null())
        .envs(environment(&database.url)?);
    if std::env::var_os("PGCONNECT_TIMEOUT").is_none() {
        command.env("PGCONNECT_TIMEOUT", "10");
    }
    Ok(command)
}

/// Returns the environment variables of libpq for a URL. For a parameter that the URL does not
/// contain, libpq uses the variable of the current environment.
fn environment(url: &str) -> anyhow::Result<Vec<(&'static str, String)>> {
    // The error does not contain the URL, because the URL can contain a password.
    let url = Url::parse(url).map_err(|_| anyhow!("`database.url` is not a PostgreSQL URL"))?;
    let mut variables = Vec::new();
    let mut set = |name, value: Cow<'_, str>| {
        if !value.is_empty() {
            variables.push((name, value.into_owned()));
        }
    };
    let host = url.host_str().unwrap_or_default();
    set("PGHOST", decoded(host.trim_matches(['[', ']'])));
    set(
        "PGPORT",
        url.port()
            .map_or(Cow::Borrowed(""), |port| port.to_string().into()),
    );
    set("PGUSER", decoded(url.username()));
    set("PGPASSWORD", decoded(url.password().unwrap_or_default()));
    set("PGDATABASE", decoded(url.path().trim_start_matches('/')));
    let (mut mode, mut has_root) = (String::new(), false);
    for (name, value) in url.query_pairs() {
        let name = match &*name {
            "host" => "PGHOST",
            "hostaddr" => "PGHOSTADDR",
            "port" => "PGPORT",
            "user" => "PGUSER",
            "password" => "PGPASSWORD",
            "dbname" => "PGDATABASE",
            "sslmode" | "ssl-mode" => {
                mode = value.clone().into_owned();
                "PGSSLMODE"
            }
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => {
                has_root = true;
                "PGSSLROOTCERT"
            }
            "sslcert" | "ssl-cert" => "PGSSLCERT",
            "sslkey" | "ssl-key" => "PGSSLKEY",
            "options" => "PGOPTIONS",
            _ => continue,
        };
        set(name, value);
    }
    let has_root = has_root || std::env::var_os("PGSSLROOTCERT").is_some();
    if mode.starts_with("verify-") && !has_root && Path::new(CERTIFICATES).exists() {
        set("PGSSLROOTCERT", CERTIFICATES.into());
    }
    Ok(variables)
}

/// Decodes the percent-encoding of a part of a URL.
fn decoded(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return part.into();
    }
    // The query parser decodes `+` as a space, so encode `+` first.
    let query = format!("x={}", part.replace('+', "%2B"));
    let decoded = url::form_urlencoded::parse(query.as_bytes()).next();
    decoded
        .map_or_else(String::new, |(_, value)| value.into_owned())
        .into()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_a_url_are_in_the_environment() {
        let url = "postgres://lm:p%40ss+%25word@[2001:db8::1]:5433/mail%20db?sslmode=require&statement-cache-capacity=5";
        let expected = [
            ("PGHOST", "2001:db8::1"),
            ("PGPORT", "5433"),
            ("PGUSER", "lm"),
            ("PGPASSWORD", "p@ss+%word"),
            ("PGDATABASE", "mail db"),
            ("PGSSLMODE", "require"),
        ];
        let found = environment(url).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (*n, v.as_str())).collect();
        assert_eq!(found, expected);
        let socket = environment("postgres:///mail?host=/run/postgresql").unwrap();
        assert!(socket.contains(&("PGHOST", "/run/postgresql".to_owned())));
        let socket = environment("postgres://lm@%2Frun%2Fpostgresql/mail").unwrap();
        assert!(socket.contains(&("PGHOST", "/run/postgresql".to_owned())));
    }

    #[tokio::test]
    async fn a_missing_and_an_old_program_are_refused_with_a_remedy() {
        let missing = require("/nonexistent/pg_dump", None).await.unwrap_err();
        assert!(missing.to_string().contains("postgresql-client"));
        let old = require("psql", Some(900)).await.unwrap_err();
        assert!(old.to_string().contains("900 or later"), "{old}");
    }
}
