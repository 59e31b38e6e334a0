//! Writes Postfix's configuration from the templates in `host/mailserver/postfix`. Also builds the
//! command of the sink, a program that receives the outgoing mail.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::daemon::GracePeriod;
use crate::layout::{Layout, MAIL_USER};
use crate::lookup::LookupSettings;
use crate::ports::Ports;
use crate::template::fill;

const MAIN: &str = include_str!("../postfix/main.cf");
const DEVELOPMENT: &str = include_str!("../postfix/development.cf");
const MASTER: &str = include_str!("../postfix/master.cf");
const DEVELOPMENT_MASTER: &str = include_str!("../postfix/development-master.cf");
/// The lookup tables.
const TABLES: [(&str, &str); 5] = [
    ("aliases.cf", include_str!("../postfix/aliases.cf")),
    ("domains.cf", include_str!("../postfix/domains.cf")),
    ("mailboxes.cf", include_str!("../postfix/mailboxes.cf")),
    ("recipients.cf", include_str!("../postfix/recipients.cf")),
    ("senders.cf", include_str!("../postfix/senders.cf")),
];

/// The folder of Postfix's libraries on Debian and Ubuntu. The database drivers are also in this
/// folder.
const LIBRARIES: &str = "/usr/lib/postfix";

/// The path of Postfix's master on Debian and Ubuntu. The command `postfix start` is not used,
/// because its checks take a hundred times longer.
pub(crate) const PROGRAM: &str = "/usr/lib/postfix/sbin/master";

/// The time between SIGTERM and SIGKILL of the master: a tenth of a second. On SIGTERM, the master
/// ends all other processes, and then sleeps for a second. SIGKILL ends this sleep, and does not
/// damage the queue.
pub(crate) const GRACE: GracePeriod = GracePeriod(5);

/// The path of the sink, a program of Postfix. The sink accepts all mail and stores each message in
/// a file.
pub(crate) const SINK: &str = "/usr/sbin/smtp-sink";

/// The recipient of mail to `postmaster` without a domain. The local servers have no operator, so
/// the sink receives this mail. The domain is reserved (RFC 2606).
const POSTMASTER: &str = "postmaster@sink.invalid";

/// Writes the configuration and returns the command that starts Postfix.
pub(crate) fn configure(
    layout: &Layout,
    settings: &LookupSettings,
    ports: &Ports,
    instance: &str,
    with_milter: bool,
) -> anyhow::Result<Vec<String>> {
    let local = |port: u16| format!("127.0.0.1:{port}");
    let (lmtp, smtp, submission, scripts) = (
        local(ports.lmtp),
        local(ports.smtp),
        local(ports.submission),
        local(ports.scripts),
    );
    let sink = format!("[127.0.0.1]:{}", ports.sink);
    let text = |path: &Path| path.display().to_string();
    let (config, queue, data) = (
        text(&layout.postfix),
        text(&layout.queue),
        text(&layout.data),
    );
    let (run, log) = (text(&layout.run), text(&layout.log));
    let milter = if with_milter {
        format!("inet:{}", local(ports.milter))
    } else {
        String::new()
    };
    let values = [
        ("config", config.as_str()),
        ("connection", &settings.postfix),
        ("data", &data),
        ("hostname", "mail.latchmail.test"),
        ("instance", instance),
        ("interfaces", "127.0.0.1"),
        ("lmtp", &lmtp),
        ("log", &log),
        ("maps", settings.maps),
        ("milter", &milter),
        ("postmaster", POSTMASTER),
        ("queue", &queue),
        ("run", &run),
        ("scripts", &scripts),
        ("sink", &sink),
        ("smtp", &smtp),
        ("submission", &submission),
    ];
    let main = format!("{MAIN}{DEVELOPMENT}");
    let master = format!("{MASTER}{DEVELOPMENT_MASTER}");
    for (name, template) in [("main.cf", main.as_str()), ("master.cf", master.as_str())]
        .into_iter()
        .chain(TABLES)
    {
        layout.write(&layout.postfix.join(name), &fill(template, &values)?)?;
    }
    // Postfix's programs run as several users. All these users must be able to read the settings.
    for name in ["main.cf", "master.cf"] {
        use std::os::unix::fs::PermissionsExt as _;
        let path = layout.postfix.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
            .with_context(|| format!("cannot give Postfix access to {}", path.display()))?;
    }
    copy_library(layout, settings.driver)?;
    // -d: run in the foreground with the inherited streams.
    Ok([PROGRAM, "-c", &config, "-d"].map(Into::into).to_vec())
}

/// Replaces settings of `main.cf` (`name = value`) with `postconf`.
#[cfg(feature = "testing")]
pub(crate) fn set(layout: &Layout, settings: &[&str]) -> anyhow::Result<()> {
    let output = std::process::Command::new("postconf")
        .arg("-c")
        .arg(&layout.postfix)
        .arg("-e")
        .args(settings)
        .output()
        .context("cannot run `postconf`")?;
    if !output.status.success() {
        anyhow::bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let main = layout.postfix.join("main.cf");
    layout.write(&main, &fs::read_to_string(&main)?)
}

/// Copies the database driver into the configuration folder, and writes the path of the copy into
/// `dynamicmaps.cf`. Postfix loads a library only if root owns the file. In a user namespace, root
/// does not own the files of installed packages.
fn copy_library(layout: &Layout, driver: &str) -> anyhow::Result<()> {
    let name = format!("postfix-{driver}.so");
    let (from, to) = (Path::new(LIBRARIES).join(&name), layout.postfix.join(&name));
    // An earlier daemon that is still ending may use the old file. Therefore the old file is
    // removed instead of overwritten.
    let _ = fs::remove_file(&to);
    fs::copy(&from, &to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    layout.write(
        &layout.postfix.join("dynamicmaps.cf"),
        &format!("{driver} {} dict_{driver}_open\n", to.display()),
    )
}

/// Returns the command that starts the sink. The sink writes one file per message into its working
/// folder.
pub(crate) fn sink_command(ports: &Ports, instance: &str) -> Vec<String> {
    let address = format!("127.0.0.1:{}", ports.sink);
    let command = [
        SINK,
        "-u",
        MAIL_USER,
        "-h",
        instance,
        "-d",
        "%Y%m%d%H%M%S.",
        // Do not offer delivery reports, so that Postfix reports what the sink has accepted.
        "-N",
        &address,
        "100",
    ];
    command.map(Into::into).to_vec()
}
