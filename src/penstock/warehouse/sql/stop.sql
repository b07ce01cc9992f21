KILL QUERY WHERE Settings['log_comment'] = {work:String} ASYNC
