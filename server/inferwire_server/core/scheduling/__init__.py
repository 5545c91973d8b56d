"""Which job runs next, where and with which others: the rules of one device, from submit to outcome."""
