"""What an audit concludes from the lake: errors of predictions, what is learnt from them, who moved what, findings."""
