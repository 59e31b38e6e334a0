//! Handles one connection from the mail server. The mail server uses the connection for several of
//! its clients, one client after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::deliveries;
use super::message::Message;
use super::policy::Policy;
use super::protocol::{self, Client, Command, Replies};
use super::receipts::Counter;
use super::results;
use super::verify::Envelope;
use latchmail_mailbox::outbox::SUBMISSION_FIELD;

/// Timeout of a connection on which Postfix sends no commands. Postfix waits up to five minutes for
/// each command of an SMTP client. Postfix sends nothing on this connection while it waits, so the
/// timeout must be longer.
const IDLE_TIMEOUT: Duration = Duration::from_mins(15);

/// The state of a connection.
pub(crate) struct Connection<'a> {
    policy: &'a Policy,
    receipts: &'a Counter,
    body_memory: &'a Arc<Semaphore>,
    client: Client,
    hello: String,
    login: Option<String>,
    message: Message,
}

impl<'a> Connection<'a> {
    /// Creates the initial state. `body_memory` has one permit for each KiB of memory.
    pub(crate) fn new(
        policy: &'a Policy,
        receipts: &'a Counter,
        body_memory: &'a Arc<Semaphore>,
    ) -> Self {
        Self {
            policy,
            receipts,
            body_memory,
            client: Client::default(),
            hello: String::new(),
            login: None,
            message: Message::default(),
        }
    }

    /// Handles commands until the mail server closes the connection.
    pub(crate) async fn run(mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        loop {
            let command = timeout(IDLE_TIMEOUT, protocol::read(&mut read)).await;
            let Some(command) = command.unwrap_or_else(|elapsed| Err(elapsed.into()))? else {
                return Ok(());
            };
            if command == Command::Quit {
                return Ok(());
            }
            let mut replies = Replies::default();
            self.handle(command, &mut replies).await?;
            if !replies.bytes().is_empty() {
                write.write_all(replies.bytes()).await?;
            } else if read.buffer().is_empty() {
                // Postfix does not set TCP_NODELAY, so Postfix sends the rest of a message only
                // after the acknowledgement of the previous bytes. Without TCP_QUICKACK, the kernel
                // delays an acknowledgement without a reply by 40 ms. The kernel resets the option,
                // so the milter sets the option before each read.
                read.get_ref().as_ref().set_quickack(true)?;
            }
        }
    }

    async fn handle(&mut self, command: Command, replies: &mut Replies) -> io::Result<()> {
        match command {
            Command::Negotiate(offered) => replies.negotiate(offered)?,
            Command::Macros(pairs) => {
                let login = pairs.into_iter().find(|(name, _)| name == "auth_authen");
                if let Some((_, login)) = login {
                    self.login = Some(login).filter(|login| !login.is_empty());
                }
            }
            Command::Connect(client) => {
                self.reset();
                self.client = client;
            }
            Command::Hello(name) => self.hello = name,
            Command::Sender(sender) => {
                self.message = Message::default();
                self.message.login = self.login.take();
                self.message.sender = sender;
            }
            Command::Recipient(recipient) => self.message.add_recipient(recipient),
            Command::Field { name, value } => {
                let authserv_id = &self.policy.authserv_id;
                self.message.add_field(&name, &value, authserv_id);
            }
            Command::EndOfHeader => self.message.end_header(),
            Command::Body(piece) => self.message.add_body(&piece, self.body_memory),
            Command::EndOfMessage => self.end_message(replies).await,
            Command::Abort => self.message = Message::default(),
            Command::NewClient => self.reset(),
            Command::Quit => {}
            Command::Other => replies.proceed(),
        }
        Ok(())
    }

    /// Discards the data about the client and its message.
    fn reset(&mut self) {
        *self = Self::new(self.policy, self.receipts, self.body_memory);
    }

    async fn end_message(&mut self, replies: &mut Replies) {
        let message = std::mem::take(&mut self.message);
        let client = self.client;
        let envelope = Envelope {
            ip: client.ip,
            hello: &self.hello,
            sender: &message.sender,
        };
        // The sender of an internal message is not checked: Postfix returns mail in the name of
        // this machine, whose name can be a local domain.
        let results = if client.is_internal {
            Ok(None)
        } else {
            match self.policy.results(envelope, &message).await {
                Ok(value) => {
                    let recorded = self.policy.record_submission(&message).await;
                    recorded.map(|()| Some(value))
                }
                Err(reply) => Err(reply),
            }
        };
        let handled = match results {
            Ok(value) => {
                let report = deliveries::record(self.policy, client.is_internal, &message).await;
                report.map(|handled| (value, handled))
            }
            Err(reply) => Err(reply),
        };
        match handled {
            Ok((_, deliveries::Handled::Discard)) => replies.discard(),
            Ok((None, deliveries::Handled::Accept)) => replies.accept(),
            Ok((Some(value), deliveries::Handled::Accept)) => {
                self.policy.record_sent(&message).await;
                // Delete the fields from the last to the first, because a deletion changes the
                // indexes of the fields after it.
                for index in message.forged_results.iter().rev() {
                    replies.delete(*index, results::NAME);
                }
                for index in (1..=message.submission_fields).rev() {
                    replies.delete(index, SUBMISSION_FIELD);
                }
                replies.insert(results::NAME, &value);
                replies.accept();
                self.receipts.count(&message.recipients);
            }
            Err(reply) => replies.reject(&reply),
        }
    }
}
