//! Reads passwords and confirmations from standard input, and parses addresses in arguments.
//!
//! Other processes can read the arguments and the environment. This module therefore never reads
//! passwords from arguments or environment variables.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, anyhow, bail};
use latchmail_core::address;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::output::{escape, print_line};

/// The value that disables a special character of a terminal (`_POSIX_VDISABLE`).
const DISABLED: u8 = 0;

/// The maximum number of bytes of a line with a password. The password rules allow only shorter
/// passwords. The buffer has this size from the start, because a growing buffer would leave copies
/// of the password in memory.
const MAX_LINE: usize = 2048;

/// Parses an address, and converts the address to lower case.
///
/// # Errors
/// Returns an error if the text is not an address.
pub fn parse_address(text: &str) -> anyhow::Result<String> {
    address::fold(text).ok_or_else(|| anyhow!("`{}` is not an address", escape(text)))
}

/// Asks the operator for confirmation. Without a terminal, `--yes` is required.
///
/// # Errors
/// Returns an error if standard input is not a terminal.
pub fn confirm(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("standard input is not a terminal, so confirm with --yes");
    }
    print_line(&format!("{question} Type `yes` to continue."))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == "yes")
}

/// Reads a password from standard input. On a terminal, asks for the password twice and does not
/// display the password.
///
/// # Errors
/// Returns an error if standard input contains no password, or if the two passwords differ.
pub fn read_new_password() -> anyhow::Result<SecretString> {
    if !io::stdin().is_terminal() {
        return read_line(&[]);
    }
    let first = prompt_line("New password: ")?;
    let second = prompt_line("Repeat the password: ")?;
    if first.expose_secret() != second.expose_secret() {
        bail!("the passwords do not match; nothing was changed");
    }
    Ok(first)
}

/// Reads the existing password of `user` from standard input. On a terminal, asks for the password
/// and does not display it.
///
/// # Errors
/// Returns an error if standard input contains no password.
pub fn read_password(user: &str) -> anyhow::Result<SecretString> {
    read_secret(&format!("Password of {user}: "))
}

/// Reads a secret from standard input. On a terminal, prints `prompt`, and does not display the
/// secret.
///
/// # Errors
/// Returns an error if standard input contains no secret.
pub fn read_secret(prompt: &str) -> anyhow::Result<SecretString> {
    if io::stdin().is_terminal() {
        prompt_line(prompt)
    } else {
        read_line(&[])
    }
}

fn prompt_line(prompt: &str) -> anyhow::Result<SecretString> {
    // The echo is disabled before the prompt, because the operator can start to type early.
    let echo_off = EchoOff::begin().context("cannot disable the terminal's echo")?;
    let mut terminal = io::stderr();
    write!(terminal, "{prompt}").and_then(|()| terminal.flush())?;
    let line = read_line(&echo_off.abort_keys);
    drop(echo_off);
    writeln!(terminal)?;
    line
}

/// Reads one line of standard input without the line ending. Returns an error if the input contains
/// a byte of `abort_keys`.
fn read_line(abort_keys: &[u8]) -> anyhow::Result<SecretString> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_LINE));
    let limit = u64::try_from(MAX_LINE)?;
    for byte in io::stdin().lock().take(limit).bytes() {
        let byte = byte.context("cannot read standard input")?;
        if abort_keys.contains(&byte) {
            bail!("interrupted; nothing was changed");
        }
        bytes.push(byte);
        if byte == b'\n' {
            break;
        }
    }
    if bytes.is_empty() {
        bail!("no password was given: it is read from standard input, as one line");
    }
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = std::str::from_utf8(line).ok();
    Ok(SecretString::from(
        text.context("the password is not UTF-8")?,
    ))
}

/// Disables the echo of the terminal until this value is dropped.
///
/// While the echo is disabled, the keys that interrupt, quit or suspend the program send no signal
/// and are read as input. A signal would end the program while the echo is still disabled.
struct EchoOff {
    before: Termios,
    abort_keys: Vec<u8>,
}

impl EchoOff {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut settings = before.clone();
        settings
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ISIG);
        let keys = [
            SpecialCodeIndex::VINTR,
            SpecialCodeIndex::VQUIT,
            SpecialCodeIndex::VSUSP,
        ];
        // The interrupt key and the quit key end the line, so that the program reads the keys
        // immediately. A terminal supports only two additional end-of-line characters. The program
        // therefore reads the suspend key only when the line ends.
        let [interrupt, quit, suspend] = keys.map(|key| before.special_codes[key]);
        settings.special_codes[SpecialCodeIndex::VEOL] = interrupt;
        settings.special_codes[SpecialCodeIndex::VEOL2] = quit;
        tcsetattr(io::stdin(), OptionalActions::Flush, &settings)?;
        let mut abort_keys = vec![interrupt, quit, suspend];
        abort_keys.retain(|key| *key != DISABLED);
        Ok(Self { before, abort_keys })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
