//! The interface `filters`, for the vacation response and the rules of the caller's mailbox.

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::filters::{self as wit, FilterError, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_mailbox::filters::{self, FilterState};
use latchmail_shape::filters::{Action, Condition, Rule, Vacation};

use super::call::Call;
use super::convert::mailbox_error;
use super::host_call::host_call;
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
        let access = self.mailbox_access(Scope::MailWrite)?;
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
        let access = self.mailbox_access(Scope::MailWrite)?;
        let mut actions = rules.iter().flat_map(|rule| &rule.actions);
        if actions.any(|action| action.kind == "forward") {
            // A credential that can only change mail must not be able to mail the mailbox to
            // another account.
            self.require_scope(Scope::MailRead)?;
            self.require_scope(Scope::MailSend)?;
        }
        let rules = rules.into_iter().map(rule_from_wit).collect();
        let filters = &self.services.filters;
        let changed = filters.set_rules(&access, rules, if_version.as_deref());
        Ok(state(changed.await.map_err(filter_error)?))
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

fn filter_error(error: filters::Error) -> FilterError {
    let text = error.to_string();
    FilterError::Failed(match error {
        filters::Error::Unsupported => return FilterError::Unsupported(text),
        filters::Error::VersionMismatch => return FilterError::VersionMismatch,
        filters::Error::Invalid(why) => Error::Invalid(problem::of(why)),
        filters::Error::Conflict(why) => Error::Conflict(problem::of(why)),
        filters::Error::OwnerOnly => problem::denied(codes::OWNER_ONLY, text),
        filters::Error::TooLarge => problem::too_large(codes::FILTERS_TOO_LARGE, text),
        filters::Error::Mailbox(error) => mailbox_error(error),
    })
}
