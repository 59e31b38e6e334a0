//! The interface `filters`, for the vacation response and the rules of the caller's mailbox.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::filters::{self as wit, FilterError, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::policy;
use latchmail_mailbox::Access;
use latchmail_mailbox::filters::forward_addresses::ForwardAddress;
use latchmail_mailbox::filters::{self, FilterState};
use latchmail_shape::filters::{Action, Condition, Rule, Vacation};

use super::call::Call;
use super::convert::mailbox_error;
use super::host_call::host_call;
use super::policy::require_policy;
use super::problem;

impl Host for Call {
    fn convert_filter_error(
        &mut self,
        error: HostError<FilterError>,
    ) -> wasmtime::Result<FilterError> {
        error.into_guest()
    }

    async fn get(&mut self) -> Result<wit::FilterState, HostError<FilterError>> {
        let _span = host_call("filters.get");
        let access = self.mailbox_access(Scope::MailRead)?;
        let found = self.services.filters.get(&access).await;
        Ok(state(found.map_err(filter_error)?))
    }

    async fn set_vacation(
        &mut self,
        vacation: wit::Vacation,
        if_version: Option<String>,
    ) -> Result<wit::FilterState, HostError<FilterError>> {
        let _span = host_call("filters.set-vacation");
        let access = filter_access(self)?;
        self.preview.refuse()?;
        let vacation = Vacation {
            enabled: vacation.enabled,
            from: vacation.from_date,
            until: vacation.to_date,
            subject: vacation.subject,
            text: vacation.text,
            html: vacation.html,
        };
        let filters = &self.services.filters;
        let changed = filters.set_vacation(&access, vacation, if_version.as_deref());
        Ok(state(changed.await.map_err(filter_error)?))
    }

    async fn set_rules(
        &mut self,
        rules: Vec<wit::Rule>,
        if_version: Option<String>,
    ) -> Result<wit::FilterState, HostError<FilterError>> {
        let _span = host_call("filters.set-rules");
        let access = filter_access(self)?;
        let mut actions = rules.iter().flat_map(|rule| &rule.actions);
        if actions.any(|action| action.kind == "forward") {
            // A credential that can only change mail must not be able to mail the mailbox to
            // another account.
            self.require_scope(Scope::MailRead)?;
            self.require_scope(Scope::MailSend)?;
        }
        self.preview.refuse()?;
        let rules = rules.into_iter().map(rule_from_wit).collect();
        let filters = &self.services.filters;
        let changed = filters.set_rules(&access, rules, if_version.as_deref());
        Ok(state(changed.await.map_err(filter_error)?))
    }

    async fn list_forward_addresses(
        &mut self,
    ) -> Result<Vec<wit::ForwardAddress>, HostError<Error>> {
        let _span = host_call("filters.list-forward-addresses");
        let access = self.mailbox_access(Scope::MailRead)?;
        let listed = self.services.filters.forward_addresses(&access).await;
        Ok(listed.map_err(error)?.into_iter().map(to_wit).collect())
    }

    async fn request_forward_address(
        &mut self,
        address: String,
    ) -> Result<wit::ForwardAddress, HostError<Error>> {
        let _span = host_call("filters.request-forward-address");
        let (access, _) = self.owner_access()?;
        let filters = &self.services.filters;
        let requested = filters.request_forward_address(&access, &address).await;
        Ok(to_wit(requested.map_err(error)?))
    }

    async fn confirm_forward_address(
        &mut self,
        id: String,
        code: String,
    ) -> Result<wit::ForwardAddress, HostError<Error>> {
        let _span = host_call("filters.confirm-forward-address");
        let (access, origin) = self.owner_access()?;
        let filters = &self.services.filters;
        let confirmed = filters.confirm_forward_address(&access, &id, &code, &origin);
        let confirmed = confirmed.await.map_err(error)?;
        Ok(to_wit(confirmed.ok_or(Error::NotFound)?))
    }

    async fn delete_forward_address(&mut self, id: String) -> Result<(), HostError<Error>> {
        let _span = host_call("filters.delete-forward-address");
        let (access, origin) = self.owner_access()?;
        let filters = &self.services.filters;
        let deleted = filters.delete_forward_address(&access, &id, &origin).await;
        if deleted.map_err(error)? {
            return Ok(());
        }
        Err(Error::NotFound.into())
    }
}

impl Call {
    /// Returns the access and the origin of a caller with a web session.
    fn owner_access(&self) -> Result<(Access, Origin), Error> {
        let session = self.require_session()?;
        Ok((self.mailbox_access(Scope::MailWrite)?, session.origin))
    }
}

/// Returns the access of a caller who may change rules and the vacation response. They send, move
/// and delete mail without asking the policy of a grant, so a grant with a policy that limits one
/// of these must not change them.
fn filter_access(call: &Call) -> Result<Access, Error> {
    let access = call.mailbox_access(Scope::MailWrite)?;
    require_policy(
        call,
        policy::Action::Filters,
        "changing rules and vacation responses",
    )?;
    Ok(access)
}

fn to_wit(one: ForwardAddress) -> wit::ForwardAddress {
    wit::ForwardAddress {
        confirmed: one.confirmed_at().is_some(),
        requested_at: one.requested_at().millis(),
        expires_at: one.expires_at().map(Timestamp::millis),
        id: one.id,
        address: one.address,
    }
}

fn rule_from_wit(rule: wit::Rule) -> Rule {
    let conditions = rule.conditions.into_iter().map(|one| Condition {
        field: one.field,
        header: one.header,
        operator: one.operator,
        value: one.value,
    });
    let actions = rule.actions.into_iter().map(|one| Action {
        kind: one.kind,
        value: one.value,
    });
    Rule {
        name: rule.name,
        enabled: rule.enabled,
        combination: rule.combination,
        conditions: conditions.collect(),
        actions: actions.collect(),
    }
}

fn rule_to_wit(rule: Rule) -> wit::Rule {
    let conditions = rule.conditions.into_iter().map(|one| wit::Condition {
        field: one.field,
        header: one.header,
        operator: one.operator,
        value: one.value,
    });
    let actions = rule.actions.into_iter().map(|one| wit::Action {
        kind: one.kind,
        value: one.value,
    });
    wit::Rule {
        name: rule.name,
        enabled: rule.enabled,
        combination: rule.combination,
        conditions: conditions.collect(),
        actions: actions.collect(),
    }
}

fn state(state: FilterState) -> wit::FilterState {
    let vacation = state.vacation;
    wit::FilterState {
        vacation: wit::Vacation {
            enabled: vacation.enabled,
            from_date: vacation.from,
            to_date: vacation.until,
            subject: vacation.subject,
            text: vacation.text,
            html: vacation.html,
        },
        rules: state.rules.into_iter().map(rule_to_wit).collect(),
        active: state.active,
        version: state.version,
    }
}

fn filter_error(failed: filters::Error) -> FilterError {
    match failed {
        filters::Error::Unsupported => FilterError::Unsupported(failed.to_string()),
        filters::Error::VersionMismatch => FilterError::VersionMismatch,
        failed => FilterError::Failed(error(failed)),
    }
}

fn error(failed: filters::Error) -> Error {
    let text = failed.to_string();
    match failed {
        filters::Error::Invalid(why) => Error::Invalid(problem::of(why)),
        filters::Error::Conflict(why) => Error::Conflict(problem::of(why)),
        filters::Error::VersionMismatch => problem::conflict(codes::FILTERS_CHANGED, text),
        filters::Error::OwnerOnly(_) => problem::denied(codes::OWNER_ONLY, text),
        filters::Error::TooLarge => problem::too_large(codes::FILTERS_TOO_LARGE, text),
        filters::Error::Unsupported => problem::rejected(text),
        filters::Error::Mailbox(failed) => mailbox_error(failed),
    }
}
