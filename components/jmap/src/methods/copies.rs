//! Copies between accounts. A caller has one account, so there is no other account to copy from.

use crate::Capabilities;
use crate::args::{Args, Object};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// `Email/copy` (RFC 8621, section 4.7).
pub(super) fn copy_email<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    let known = [
        "fromAccountId",
        "ifFromInState",
        "ifInState",
        "create",
        "onSuccessDestroyOriginal",
        "destroyFromIfInState",
    ];
    refuse(ctx, args, &known)
}

/// `Blob/copy` (RFC 8620, section 6.3).
pub(super) fn copy_blob<H: Capabilities>(ctx: &mut Context<'_, H>, args: &Object) -> MethodResult {
    refuse(ctx, args, &["fromAccountId", "blobIds"])
}

fn refuse<H: Capabilities>(ctx: &Context<'_, H>, args: &Object, known: &[&str]) -> MethodResult {
    let args = Args::new(ctx, args, known)?;
    if args.required("fromAccountId")? == ctx.account {
        let text = "fromAccountId must be another account";
        return Err(MethodError::invalid(text));
    }
    Err(MethodError::new("fromAccountNotFound"))
}
