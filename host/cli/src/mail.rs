//! `latchmail mail …`: commands for users, which read and send the mail of their own account. The
//! commands are clients of the API: they need a URL, and neither the configuration nor the
//! database.
//!
//! A user signs in once, with the device grant (RFC 8628). The tokens are in the keyring of the
//! system or in a file ([`store`]). A program can set an API token in `LATCHMAIL_TOKEN` instead.
//!
//! | exit status | meaning |
//! |---|---|
//! | 0 | success |
//! | 1 | another failure |
//! | 2 | the arguments are not valid |
//! | 3 | the user is not signed in, or the credential is not valid any longer |
//! | 4 | the credential does not permit the request |
//! | 5 | there is no such message, folder or alias |
//! | 6 | the service cannot be reached, or is busy; the command can be repeated |

mod alias;
mod api;
mod login;
mod read;
mod store;
mod watch;
mod write;

use std::collections::HashMap;

use clap::Subcommand;
use latchmail_core::clock::Clock;
use latchmail_core::config;
use latchmail_terminal::output::{escape, print_lines};
use serde_json::Value;

use api::Api;
use store::Store;

/// The variable with an API token.
const TOKEN: &str = "LATCHMAIL_TOKEN";
/// The variable with the URL of the service.
const URL: &str = "LATCHMAIL_URL";
/// The URL of a service on this machine.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// Arguments of all commands of `latchmail mail`.
#[derive(Clone, Debug, clap::Args)]
pub struct MailArgs {
    /// URL of the service [default: `$LATCHMAIL_URL`, the URL of the last sign-in, or
    /// `http://127.0.0.1:8080`].
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Print JSON: one object, or one object per line for lists.
    #[arg(long, global = true)]
    json: bool,
}

/// Subcommands of `latchmail mail`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sign in: open a page in a browser, and enter a code there.
    Login(login::Login),
    /// Sign out: revoke the tokens, and delete them on this machine.
    Logout,
    /// List the messages of a folder, newest first, or the folders.
    List(read::List),
    /// Search messages.
    Search(read::Search),
    /// Print a message.
    Read(read::Read),
    /// Send a message. The text is read from standard input.
    Send(write::Send),
    /// Reply to a message. The text is read from standard input.
    Reply(write::Reply),
    /// Move messages to a folder.
    Move(write::Move),
    /// Print the events of the mailbox, until SIGINT.
    Watch(watch::Watch),
    /// List and create aliases.
    Alias {
        /// What to do.
        #[command(subcommand)]
        command: alias::Command,
    },
}

/// Runs a subcommand.
///
/// # Errors
/// Returns an error with an exit status if the command fails.
pub async fn run(args: MailArgs, command: Command) -> anyhow::Result<()> {
    let environment = config::environment();
    let store = Store::new(&environment);
    let url = match args.url.as_deref().or_else(|| variable(&environment, URL)) {
        Some(url) => url.to_owned(),
        None => store.last_url()?.unwrap_or_else(|| DEFAULT_URL.to_owned()),
    };
    let token = variable(&environment, TOKEN);
    let json = args.json;
    let mut api = Api::new(&url, token, store)?;
    match command {
        Command::Login(login) => login::login(&mut api, login).await,
        Command::Logout => login::logout(&mut api).await,
        Command::List(list) => read::list(&mut api, list, json).await,
        Command::Search(search) => read::search(&mut api, search, json).await,
        Command::Read(read) => read::read(&mut api, read, json).await,
        Command::Send(send) => write::send(&mut api, send, json).await,
        Command::Reply(reply) => write::reply(&mut api, reply, json).await,
        Command::Move(messages) => write::move_messages(&mut api, messages, json).await,
        Command::Watch(watch) => watch::watch(&mut api, watch, json).await,
        Command::Alias { command } => alias::run(&mut api, command, json).await,
    }
}

fn variable<'e>(environment: &'e HashMap<String, String>, name: &str) -> Option<&'e str> {
    let value = environment.get(name).map(String::as_str);
    value.filter(|value| !value.is_empty())
}

/// Returns the current time, in Unix seconds.
fn now() -> i64 {
    Clock::system().now().seconds()
}

/// Prints the elements of a list of a response as JSON, one per line.
fn print_objects(list: &Value) -> anyhow::Result<()> {
    let objects = list.as_array().into_iter().flatten();
    print_lines(objects.map(ToString::to_string))
}

/// Returns a text of a response. Returns an empty text if there is none.
fn text(value: &Value) -> String {
    value.as_str().map(escape).unwrap_or_default()
}
