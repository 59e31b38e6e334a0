//! Decides whether a message is accepted, and which results are written into the message.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use latchmail_core::address;
use latchmail_core::clock::Clock;
use latchmail_core::config::LocalFrom;
use latchmail_directory::mailserver::MailServerView;
use latchmail_mailbox::outbox::{REPEATED_SUBMISSION, sent_record};

use super::message::{Excess, Message};
use super::results::{self, Check};
use super::senders::{self, MAX_SENDERS, Senders};
use super::verify::{Envelope, Verifier};

const UNAVAILABLE: &str = "451 4.3.0 The sender cannot be checked at the moment";
pub(crate) const OUT_OF_MEMORY: &str = "451 4.3.2 Too many large messages at the same time";
const DNS_UNAVAILABLE: &str = "451 4.7.1 The local sender cannot be checked at the moment";
const LOCAL_SENDER: &str =
    "550 5.7.1 The sender address is local to this server: log in to send from it";
const TOO_MANY_SENDERS: &str = "550 5.7.1 The message names too many senders";
const TOO_MANY_RESULTS: &str =
    "550 5.7.1 The message has too many Authentication-Results fields in the name of this server";

/// The configuration and the data for the decisions.
pub(crate) struct Policy {
    pub(crate) authserv_id: String,
    pub(crate) local_from: LocalFrom,
    pub(crate) list_servers: Vec<IpNet>,
    pub(crate) directory: MailServerView,
    pub(crate) verifier: Verifier,
}

impl Policy {
    /// Checks a message. Returns the value of its `Authentication-Results` field with a mark, or
    /// the SMTP reply that rejects the message.
    pub(crate) async fn results(
        &self,
        envelope: Envelope<'_>,
        message: &Message,
    ) -> Result<String, String> {
        let checks = self.check(envelope, message).await?;
        let value = results::value(&self.authserv_id, &checks);
        let key = self.directory.results_key().await;
        let Some(key) = key.map_err(|error| unavailable(&error))? else {
            tracing::warn!("cannot mark results; start the service, which creates the key");
            return Ok(value);
        };
        Ok(message.marked.mark(key.as_bytes(), &value))
    }

    /// Records the submission of a message from the outbox. Returns the SMTP reply that rejects the
    /// message if this submission was accepted before.
    pub(crate) async fn record_submission(&self, message: &Message) -> Result<(), String> {
        let Some(id) = &message.submission else {
            return Ok(());
        };
        let now = Clock::system().now();
        let recorded = self.directory.add_submission(id, now).await;
        if recorded.map_err(|error| unavailable(&error))? {
            return Ok(());
        }
        Err(format!("550 5.7.1 {REPEATED_SUBMISSION}"))
    }

    /// Records who sends a submission to whom. Policies of programs allow mail to the people to
    /// whom a person wrote. A failure is logged: then a policy allows less.
    pub(crate) async fn record_sent(&self, message: &Message) {
        let (Some(login), Some(record)) = (&message.login, sent_record(message.copy())) else {
            return;
        };
        let now = Clock::system().now();
        if let Err(error) = self.directory.add_sent_mail(login, &record, now).await {
            tracing::warn!(%error, "failed to record to whom a message was sent");
        }
    }

    /// Checks a message. Returns the results for `Authentication-Results`, or the SMTP reply that
    /// rejects the message.
    async fn check(&self, envelope: Envelope<'_>, message: &Message) -> Result<Vec<Check>, String> {
        match message.excess {
            Some(Excess::Senders) => return Err(TOO_MANY_SENDERS.into()),
            Some(Excess::Results) => return Err(TOO_MANY_RESULTS.into()),
            None => {}
        }
        match &message.login {
            Some(login) => self.check_submission(login, message).await,
            None => self.check_incoming(envelope, message).await,
        }
    }

    /// Checks that all senders in a submission are addresses of the account that submits the
    /// message.
    async fn check_submission(&self, login: &str, message: &Message) -> Result<Vec<Check>, String> {
        if message.from_fields != 1 {
            return Err(format!(
                "550 5.7.1 The message has {} From fields instead of one",
                message.from_fields
            ));
        }
        if message.other_senders.len() > MAX_SENDERS {
            return Err(TOO_MANY_SENDERS.into());
        }
        let mut own = BTreeSet::new();
        self.check_ownership(login, "From", &message.from, &mut own)
            .await?;
        for (field, senders) in &message.other_senders {
            self.check_ownership(login, field, senders, &mut own)
                .await?;
        }
        let (_, sender_domain) = message.sender.rsplit_once('@').unwrap_or_default();
        let check = Check::new("auth", "pass").with("smtp.mailfrom", sender_domain);
        let from_domain = only_domain(message).map_or("", |domain| domain);
        Ok(vec![check.with("header.from", from_domain)])
    }

    /// Checks that every address in a field belongs to the account. `own` contains the addresses
    /// that were already found to belong to the account.
    async fn check_ownership(
        &self,
        login: &str,
        field: &str,
        senders: &Senders,
        own: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        if senders.addresses.len() > MAX_SENDERS {
            return Err(TOO_MANY_SENDERS.into());
        }
        if senders.addresses.is_empty() {
            return Err(format!("550 5.7.1 The {field} field names no address"));
        }
        if !senders.is_unambiguous {
            return Err(format!(
                "550 5.7.1 The {field} field can be read in several ways"
            ));
        }
        for address in &senders.addresses {
            let foreign =
                || format!("550 5.7.1 The {field} field must name an address of your own");
            let address = address::fold(address).ok_or_else(foreign)?;
            if own.contains(&address) {
                continue;
            }
            let is_own = self.directory.may_send(login, &address).await;
            if !is_own.map_err(|error| unavailable(&error))? {
                return Err(foreign());
            }
            own.insert(address);
        }
        Ok(())
    }

    /// Checks a message from another server. A local sender in the message is allowed only if DMARC
    /// passes for this sender.
    async fn check_incoming(
        &self,
        envelope: Envelope<'_>,
        message: &Message,
    ) -> Result<Vec<Check>, String> {
        if message.out_of_memory {
            return Err(OUT_OF_MEMORY.into());
        }
        if message.from.domains.len() > MAX_SENDERS {
            return Err(TOO_MANY_SENDERS.into());
        }
        let mut verified = self.verifier.verify(envelope, message.copy()).await;
        let domain = only_domain(message);
        // Accept the result only if no program can read another domain from the From field than the
        // verified domain.
        let is_unambiguous = message.from_fields == 1 && domain == Some(&verified.domain);
        if verified.dmarc.has_result("pass") && !is_unambiguous {
            verified.dmarc.set_result("permerror");
        }
        let proven = domain.filter(|_| verified.dmarc.has_result("pass"));
        if self.names_other_local_domain(message, proven).await? {
            if self.tolerates_local_senders(envelope.ip) {
                if proven.is_none() {
                    verified.dmarc.set_result("fail");
                }
            } else if verified.dmarc.has_result("temperror") {
                return Err(DNS_UNAVAILABLE.into());
            } else {
                return Err(LOCAL_SENDER.into());
            }
        }
        let dmarc = verified
            .dmarc
            .with("header.from", domain.map_or("", |domain| domain));
        verified.checks.push(dmarc);
        Ok(verified.checks)
    }

    /// Returns `true` if the envelope or From contains a local domain other than `proven`. DMARC
    /// passed for the domain `proven`.
    async fn names_other_local_domain(
        &self,
        message: &Message,
        proven: Option<&String>,
    ) -> Result<bool, String> {
        let sender = message.sender.rsplit_once('@');
        let sender = sender.map(|(_, domain)| senders::fold_domain(domain));
        let domains = message.from.domains.iter().chain(&sender);
        for domain in domains.filter(|domain| Some(*domain) != proven) {
            let is_local = self.directory.is_local(domain).await;
            if is_local.map_err(|error| unavailable(&error))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns `true` if a message with an unproven local sender is marked instead of rejected.
    fn tolerates_local_senders(&self, client: Option<IpAddr>) -> bool {
        let is_list_server = |ip: IpAddr| self.list_servers.iter().any(|one| one.contains(&ip));
        self.local_from == LocalFrom::Mark || client.is_some_and(is_list_server)
    }
}

/// Returns the domain of From. Returns `None` if From has no domain or several domains.
fn only_domain(message: &Message) -> Option<&String> {
    let domains = &message.from.domains;
    domains.first().filter(|_| domains.len() == 1)
}

/// Logs an error of the directory and returns an SMTP reply for a temporary error.
pub(crate) fn unavailable(error: &latchmail_directory::Error) -> String {
    tracing::error!(%error, "cannot read the directory");
    UNAVAILABLE.into()
}
