//! The methods, with the capability that each needs in `using`.

mod copies;
mod email_query;
mod identity;
mod mailbox;
mod mailbox_query;
mod mailbox_set;
mod quota;
mod snippet;
mod submission;
mod submission_set;
mod thread;
mod vacation;

use serde_json::Value;

use crate::args::Object;
use crate::context::Context;
use crate::error::MethodResult;
use crate::session::{CORE, MAIL, QUOTA, SUBMISSION, VACATION};
use crate::{Capabilities, email};

/// A method.
pub(crate) type Method<H> = fn(&mut Context<'_, H>, &Object) -> MethodResult;

/// Returns a method, if one of the capabilities in `using` has it.
pub(crate) fn find<H: Capabilities>(name: &str, using: &[String]) -> Option<Method<H>> {
    let (capability, method): (&str, Method<H>) = match name {
        "Core/echo" => (CORE, echo),
        "Blob/copy" => (CORE, copies::copy_blob),
        "Mailbox/get" => (MAIL, mailbox::get),
        "Mailbox/changes" => (MAIL, mailbox::changes),
        "Mailbox/query" => (MAIL, mailbox_query::query),
        "Mailbox/queryChanges" => (MAIL, mailbox_query::query_changes),
        "Mailbox/set" => (MAIL, mailbox_set::set),
        "Thread/get" => (MAIL, thread::get),
        "Thread/changes" => (MAIL, thread::changes),
        "Email/get" => (MAIL, email::get),
        "Email/changes" => (MAIL, email::changes),
        "Email/query" => (MAIL, email_query::query),
        "Email/queryChanges" => (MAIL, email_query::query_changes),
        "Email/set" => (MAIL, email::set),
        "Email/copy" => (MAIL, copies::copy_email),
        "Email/import" => (MAIL, email::import),
        "Email/parse" => (MAIL, email::parse),
        "SearchSnippet/get" => (MAIL, snippet::get),
        "Identity/get" => (SUBMISSION, identity::get),
        "Identity/changes" => (SUBMISSION, identity::changes),
        "Identity/set" => (SUBMISSION, identity::set),
        "EmailSubmission/get" => (SUBMISSION, submission::get),
        "EmailSubmission/changes" => (SUBMISSION, submission::changes),
        "EmailSubmission/query" => (SUBMISSION, submission::query),
        "EmailSubmission/queryChanges" => (SUBMISSION, submission::query_changes),
        "EmailSubmission/set" => (SUBMISSION, submission_set::set),
        "VacationResponse/get" => (VACATION, vacation::get),
        "VacationResponse/set" => (VACATION, vacation::set),
        "Quota/get" => (QUOTA, quota::get),
        "Quota/changes" => (QUOTA, quota::changes),
        "Quota/query" => (QUOTA, quota::query),
        "Quota/queryChanges" => (QUOTA, quota::query_changes),
        _ => return None,
    };
    using.iter().any(|one| one == capability).then_some(method)
}

/// Returns its arguments (RFC 8620, section 4).
#[expect(clippy::unnecessary_wraps, reason = "all methods have this type")]
fn echo<H>(_: &mut Context<'_, H>, args: &Object) -> MethodResult {
    Ok(Value::Object(args.clone()))
}
